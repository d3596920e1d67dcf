#include "keck/sandbox/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keck/sandbox/lockdown.h"

using namespace kz::keck::sandbox;

namespace {

// Of the one process that loads this library: the zygote, which has one thread, and by inheritance its children.
struct Zygote {
  int own_pid_ns = -1;  // /proc/self/ns/pid, to come back to
  int box = -1;         // pidfd of the box that the next child goes into
  pid_t pid = 0;
  // Compiled once; the third, with the child's own pid in it, is compiled in the child.
  sock_filter with_processes[kFilterCapacity], without_processes[kFilterCapacity];
  size_t n_with = 0, n_without = 0;
};
Zygote zygote;

FilterOptions options_of(const Spec& spec) {
  FilterOptions options;
  options.processes = spec.processes;
  options.foreign_signals = spec.foreign_signals;
  options.affinity = false;
  options.self = static_cast<int>(getpid());
  return options;
}

bool read_spec(const char* text, char (&buffer)[kSpecBytes], Spec* spec) {
  const size_t length = text == nullptr ? 0 : strlen(text);
  if (length == 0 || length >= sizeof buffer) return false;
  memcpy(buffer, text, length + 1);
  return parse_spec(buffer, spec);
}

int load_for(const Spec& spec) {
  if (!spec.foreign_signals) {
    sock_filter program[kFilterCapacity];
    const size_t length = build_filter(options_of(spec), program, kFilterCapacity);
    return length == 0 ? -E2BIG : load_filter(program, length);
  }
  return spec.processes ? load_filter(zygote.with_processes, zygote.n_with)
                        : load_filter(zygote.without_processes, zygote.n_without);
}

int confine(const char* text, const int* keep, int n_keep, What what) {
  char buffer[kSpecBytes];
  Spec spec;
  if (!read_spec(text, buffer, &spec)) return *what = "the slot's spec is not of this version", -EINVAL;
  if (setsid() < 0 && errno != EPERM) return *what = "setsid", -errno;
  if (const int s = join_cgroups(spec, what); s != 0) return s;
  if (spec.box_pid > 0) {
    if (const int s = join_box(zygote.box, what); s != 0) return s;
  }
  if (const int s = close_descriptors(keep, n_keep, what); s != 0) return s;
  zygote.own_pid_ns = zygote.box = -1;
  if (const int s = drop_privileges(spec, what); s != 0) return s;
  // The parent may have died before PDEATHSIG was set; in a box the parent is outside and reads as 0, and the box dies
  // too.
  if (spec.box_pid <= 0 && getppid() != zygote.pid) return *what = "the zygote is gone", -ESRCH;
  *what = "seccomp";
  return load_for(spec);
}

}  // namespace

extern "C" {

int kz_zygote_init(void) {
  if (zygote.own_pid_ns < 0) zygote.own_pid_ns = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
  zygote.pid = getpid();
  FilterOptions options;
  options.affinity = false;
  zygote.n_with = build_filter(options, zygote.with_processes, kFilterCapacity);
  options.processes = false;
  zygote.n_without = build_filter(options, zygote.without_processes, kFilterCapacity);
  return zygote.n_with == 0 || zygote.n_without == 0 ? -E2BIG : 0;
}

int kz_before_fork(const char* text) {
  char buffer[kSpecBytes];
  Spec spec;
  if (zygote.n_with == 0 || !read_spec(text, buffer, &spec)) return -EINVAL;
  if (spec.box_pid <= 0) return 0;
  const int box = static_cast<int>(syscall(SYS_pidfd_open, spec.box_pid, 0));
  if (box < 0) return -errno;
  if (setns(box, CLONE_NEWPID) != 0) {
    const int error = errno;
    close(box);
    return -error;
  }
  zygote.box = box;
  return 0;
}

int kz_after_fork(void) {
  if (zygote.box < 0) return 0;
  close(zygote.box);
  zygote.box = -1;
  return setns(zygote.own_pid_ns, CLONE_NEWPID) == 0 ? 0 : -errno;
}

int kz_confine(const char* spec, const int* keep, int n_keep, char* err, size_t err_size) {
  const char* what = "";
  const int status = confine(spec, keep, n_keep, &what);
  if (status != 0 && err != nullptr && err_size > 0) snprintf(err, err_size, "%s: %s", what, strerror(-status));
  return status;
}

int kz_seccomp(int allow_processes) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -errno;
  if (zygote.n_with == 0) return -EINVAL;
  return allow_processes != 0 ? load_filter(zygote.with_processes, zygote.n_with)
                              : load_filter(zygote.without_processes, zygote.n_without);
}

}  // extern "C"
