#include "keck/sandbox/lockdown.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keck/sandbox/landlock.h"

namespace kz::keck::sandbox {
namespace {

int failed(What what, const char* step) {
  *what = step;
  return errno != 0 ? -errno : -EINVAL;
}

bool limit(int resource, uint64_t value) {
  const rlimit r{value, value};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &r) == 0) return true;
  // Without CAP_SYS_RESOURCE a hard limit only goes down: what is lower already is as good.
  rlimit now{};
  return errno == EPERM && getrlimit(static_cast<__rlimit_resource>(resource), &now) == 0 && now.rlim_max <= value;
}

// Bytes of address space that this process has now.
uint64_t address_space() {
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[64] = {};
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  return n > 0 ? strtoull(text, nullptr, 10) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

bool set_limits(const Spec& s) {
  bool ok = limit(RLIMIT_CORE, 0) && limit(RLIMIT_MEMLOCK, 64 << 10) && limit(RLIMIT_MSGQUEUE, 0) &&
            limit(RLIMIT_NICE, 0) && limit(RLIMIT_RTPRIO, 0);
  if (s.nofile != 0) ok = ok && limit(RLIMIT_NOFILE, s.nofile);
  if (s.fsize != 0) ok = ok && limit(RLIMIT_FSIZE, s.fsize);
  if (s.stack != 0) ok = ok && limit(RLIMIT_STACK, s.stack);
  if (s.nproc != 0) ok = ok && limit(RLIMIT_NPROC, s.nproc);
  if (s.address != 0) ok = ok && limit(RLIMIT_AS, s.address + address_space());
  if (s.cpu != 0) {
    // A second of grace between SIGXCPU and SIGKILL.
    const rlimit r{s.cpu, s.cpu + 1};
    ok = ok && setrlimit(RLIMIT_CPU, &r) == 0;
  }
  return ok;
}

// The bounding set goes first, while CAP_SETPCAP is there; the sets themselves last, also where the uid did not change.
void drop_bounding_set() {
  for (int cap = 0; cap < 64; ++cap) {
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0 && errno == EINVAL) break;
  }
}

bool drop_capabilities() {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

}  // namespace

int join_cgroups(const Spec& spec, What what) {
  for (int i = 0; i < spec.n_cgroups; ++i) {
    const int fd = open(spec.cgroups[i], O_WRONLY | O_CLOEXEC);
    if (fd < 0) return failed(what, "open cgroup");
    const ssize_t n = write(fd, "0", 1);
    const int error = errno;
    close(fd);
    if (n != 1) {
      errno = error;
      return failed(what, "join cgroup");
    }
  }
  return 0;
}

int join_box(int pidfd, What what) {
  if (setns(pidfd, CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS) != 0) return failed(what, "join box");
  return 0;
}

int close_descriptors(const int* keep, int n_keep, What what) {
  unsigned from = 3;
  // The gaps between the kept ones, in rising order; lists are short.
  for (;;) {
    unsigned next = ~0U;
    for (int i = 0; i < n_keep; ++i) {
      const unsigned fd = static_cast<unsigned>(keep[i]);
      if (fd >= from && fd < next) next = fd;
    }
    if (next > from && syscall(SYS_close_range, from, next - 1, 0) != 0) return failed(what, "close_range");
    if (next == ~0U) break;
    from = next + 1;
  }
  for (int fd = 0; fd < 3; ++fd) {
    bool kept = false;
    for (int i = 0; i < n_keep; ++i) kept = kept || keep[i] == fd;
    if (kept) continue;
    const int null = open("/dev/null", O_RDWR);
    if (null < 0) return failed(what, "open /dev/null");
    if (null != fd) {
      if (dup2(null, fd) < 0) return failed(what, "dup2");
      close(null);
    }
  }
  return 0;
}

int drop_privileges(const Spec& s, What what) {
  umask(077);
  if (!set_limits(s)) return failed(what, "setrlimit");
  drop_bounding_set();
  if (s.gid >= 0) {
    const auto gid = static_cast<gid_t>(s.gid);
    if (setgroups(0, nullptr) != 0) return failed(what, "setgroups");
    if (setresgid(gid, gid, gid) != 0) return failed(what, "setresgid");
  }
  if (s.uid >= 0) {
    const auto uid = static_cast<uid_t>(s.uid);
    if (setresuid(uid, uid, uid) != 0) return failed(what, "setresuid");
  }
  if (!drop_capabilities()) return failed(what, "capset");
  if (s.cwd != nullptr && chdir(s.cwd) != 0) return failed(what, "chdir");
  // A change of uid clears both: death with the parent, and the right to read one's own /proc (CUDA renames threads
  // there).
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return failed(what, "PR_SET_PDEATHSIG");
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed(what, "PR_SET_NO_NEW_PRIVS");
  if (s.landlock) {
    if (const int status = restrict_files(s); status != 0) {
      *what = "landlock";
      return status;
    }
  }
  return 0;
}

}  // namespace kz::keck::sandbox
