#include "keck/sandbox/seccomp_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <initializer_list>

namespace kz::keck::sandbox {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArch = AUDIT_ARCH_AARCH64;
#else
#error "keck/sandbox: name this architecture's AUDIT_ARCH"
#endif

// Numbers that the headers of an older distribution lack; the same on every architecture.
constexpr uint32_t kOpenTree = 428, kMoveMount = 429, kFsopen = 430, kFsconfig = 431, kFsmount = 432, kFspick = 433;
constexpr uint32_t kClone3 = 435, kPidfdGetfd = 438, kProcessMadvise = 440, kMountSetattr = 442, kQuotactlFd = 443;
constexpr uint32_t kPidfdSendSignal = 424, kOpenTreeAttr = 467;

// Refused with EPERM whoever asks: other processes' memory, kernel entry points with a record of holes, the host's
// state.
constexpr uint32_t kDenied[] = {
    // other processes
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    kPidfdGetfd,
    kProcessMadvise,
    SYS_move_pages,
    SYS_migrate_pages,
    // kernel surface
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_fanotify_init,
    SYS_lookup_dcookie,
    SYS_personality,
    // namespaces and mounts
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    kOpenTree,
    kMoveMount,
    kFsopen,
    kFsconfig,
    kFsmount,
    kFspick,
    kMountSetattr,
    kOpenTreeAttr,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    // the host
    SYS_reboot,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    kQuotactlFd,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_vhangup,
    SYS_nfsservctl,
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_uselib,
    SYS_ustat,
    SYS_sysfs,
    SYS__sysctl,
    SYS_create_module,
#endif
};

// Refused with ENOSYS, so that a library takes its older way: io_uring and inotify (they see or do what the filter
// cannot), and clone3, whose flags lie in memory.
constexpr uint32_t kAbsent[] = {
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, kClone3, SYS_inotify_init1,
#if defined(__x86_64__)
    SYS_inotify_init,
#endif
};

constexpr uint32_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                     CLONE_NEWPID | CLONE_NEWNET | 0x00000080 /* CLONE_NEWTIME */;

class Writer {
 public:
  Writer(sock_filter* out, size_t capacity) : out_(out), capacity_(capacity) {}
  void put(uint16_t code, uint32_t k, uint8_t jt = 0, uint8_t jf = 0) {
    if (size_ < capacity_) out_[size_] = sock_filter{code, jt, jf, k};
    ++size_;
  }
  void load(size_t offset) { put(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void load_number() { load(offsetof(seccomp_data, nr)); }
  // Low words only: the arguments checked are ints or flags that fit, and the kernel reads them so.
  void load_argument(int i) { load(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(i)); }
  void ret(uint32_t action) { put(BPF_RET | BPF_K, action); }
  void refuse(int error) { ret(SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)); }
  void deny(uint32_t number, int error) {
    put(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    refuse(error);
  }
  // Refuses `number` unless its argument is 0 or `self`.
  void only_self(uint32_t number, int argument, uint32_t self) {
    put(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 5);
    load_argument(argument);
    put(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0);
    put(BPF_JMP | BPF_JEQ | BPF_K, self, 1, 0);
    refuse(EPERM);
    load_number();
  }
  size_t size() const { return size_ <= capacity_ ? size_ : 0; }

 private:
  sock_filter* out_;
  size_t capacity_, size_ = 0;
};

void refuse_other_processes(Writer& w, uint32_t self) {
  // kill(0) is the own process group, which setsid has made the child's own.
  for (uint32_t number : {SYS_kill, SYS_tgkill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
    w.only_self(number, 0, self);
  }
  w.deny(kPidfdSendSignal, EPERM);
  for (uint32_t number : {SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr}) {
    w.only_self(number, 0, self);
  }
  w.only_self(SYS_setpriority, 1, self);
  w.only_self(SYS_ioprio_set, 1, self);
}

void refuse_processes(Writer& w) {
  w.deny(SYS_execve, EPERM);
  w.deny(SYS_execveat, EPERM);
#if defined(__x86_64__)
  w.deny(SYS_fork, EPERM);
  w.deny(SYS_vfork, EPERM);
#endif
  w.put(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
  w.load_argument(0);
  w.put(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0);
  w.refuse(EPERM);
  w.load_number();
}

}  // namespace

size_t build_filter(const FilterOptions& options, sock_filter* out, size_t capacity) {
  Writer w(out, capacity);
  w.load(offsetof(seccomp_data, arch));
  w.put(BPF_JMP | BPF_JEQ | BPF_K, kArch, 1, 0);
  w.ret(SECCOMP_RET_KILL_PROCESS);  // 32-bit calls: another table of numbers
  w.load_number();
#if defined(__x86_64__)
  w.put(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);  // x32
  w.refuse(ENOSYS);
#endif
  for (uint32_t number : kDenied) w.deny(number, EPERM);
  for (uint32_t number : kAbsent) w.deny(number, ENOSYS);
  w.deny(SYS_socket, EACCES);  // socketpair stays
  if (!options.affinity) w.deny(SYS_sched_setaffinity, EPERM);
  if (!options.foreign_signals) refuse_other_processes(w, static_cast<uint32_t>(options.self));
  w.put(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
  w.load_argument(0);
  w.put(BPF_JMP | BPF_JSET | BPF_K, kNamespaceFlags, 0, 1);
  w.refuse(EPERM);
  w.load_number();
  if (!options.processes) refuse_processes(w);
  w.ret(SECCOMP_RET_ALLOW);
  return w.size();
}

int load_filter(const sock_filter* program, size_t length) {
  const sock_fprog fprog{static_cast<unsigned short>(length), const_cast<sock_filter*>(program)};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog, 0, 0) == 0 ? 0 : -errno;
}

}  // namespace kz::keck::sandbox
