// The orders for keck-init and libkeck_child: text lines "key=value", written by the daemon (slot.cpp, run.cpp) and
// read without allocation by code that must stay tiny. Strings point into the text that was parsed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace kz::keck::sandbox {

inline constexpr int kSpecVersion = 1;
inline constexpr size_t kSpecBytes = 16384;

struct Spec {
  int version = 0;
  int box_pid = 0;          // join the namespaces of this process (by pid, in the zygote) …
  int box_fd = -1;          // … or of this pidfd (keck-init join)
  long uid = -1, gid = -1;  // -1: keep
  const char* cgroups[8];   // cgroup.procs files to write "0" to
  int n_cgroups = 0;
  uint64_t nofile = 0, fsize = 0, cpu = 0, stack = 0, nproc = 0;  // rlimits; 0: leave
  uint64_t address = 0;                                           // RLIMIT_AS above what the process has now; 0: leave
  bool processes = true;                                          // fork and exec allowed
  bool foreign_signals = true;  // false: nothing else hides other processes, so kill() of another pid is refused
  bool landlock = false;
  const char* cwd = nullptr;
  const char* read_only[64];  // Landlock; also the binds of a template, as FROM or FROM<tab>TO
  int n_read_only = 0;
  const char* read_write[8];
  int n_read_write = 0;
  // keck-init only: descriptors and mounts.
  int root_fd = -1, net_fd = -1, tmp_fd = -1, life_fd = -1, status_fd = -1;
  uint64_t tmp_bytes = 0;
  uint64_t first_uid = 0, uids = 0;  // template: uids that get a name in /etc/passwd
  bool keep_proc = false;  // template: keep the host's /proc below, a user namespace needs it to mount its own
};

// Cuts `text` into the lines of `spec`; false for an unknown key, too many values or another version.
bool parse_spec(char* text, Spec* spec);

}  // namespace kz::keck::sandbox
