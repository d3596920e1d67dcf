// libkeck_child.so: what the Python zygote and its children call (by ctypes) to lock a child in. C ABI, no exceptions,
// no torch, tiny. The zygote must have one thread. All functions return 0 or a negative errno.
//
// In the zygote, once, after its imports:              kz_zygote_init()
// For a child, `spec` being Slot::child_spec() verbatim (text, zero-terminated):
//   zygote:  kz_before_fork(spec); pid = os.fork()
//   zygote:  kz_after_fork()                           always, also when the fork failed
//   child:   kz_confine(spec, keep, n, err, sizeof err)   first thing; then os.getcwd() is its private writable folder
//
// After kz_confine at level strong the child is PID 2 or so of a box with a private root (the folders given to SlotPool
// read-only, a fresh /proc, /dev with null, zero, full, random, urandom and shm, a private tmpfs at /tmp, which is the
// current folder), the slot's uid, no capability, no_new_privs, seccomp, rlimits, its cgroups, and no descriptor but 0,
// 1, 2
// (/dev/null unless kept) and `keep`. It dies with the zygote and with its box. At level weak it has what remains: no
// descriptors, rlimits, no_new_privs, seccomp (no process, no socket, no signal to others), Landlock, a private folder
// as cwd. Failing is final: the caller must _exit; some of the locks may be on already.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KZ_EXPORT __attribute__((visibility("default")))

// Prepares what every child shares: the pid namespace to come back to and the compiled seccomp filters.
KZ_EXPORT int kz_zygote_init(void);

// Makes the next fork of this thread land in the slot's box. On failure nothing has changed.
KZ_EXPORT int kz_before_fork(const char* spec);
// Undoes kz_before_fork for the zygote itself.
KZ_EXPORT int kz_after_fork(void);

// Locks the calling process in for good. `keep`: descriptors that stay open (the socket). `err` gets one line on
// failure.
KZ_EXPORT int kz_confine(const char* spec, const int* keep, int n_keep, char* err, size_t err_size);

// Seccomp only, for a trusted child that should lose its teeth later (allow_processes = 0: no fork, no exec).
KZ_EXPORT int kz_seccomp(int allow_processes);

#ifdef __cplusplus
}
#endif
