#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>

#include "keck/sandbox/capabilities.h"
#include "keck/sandbox/cgroup_files.h"
#include "keck/sandbox/cgroups.h"
#include "keck/sandbox/detached_tmpfs.h"
#include "keck/sandbox/landlock.h"
#include "keck/sandbox/private_root.h"
#include "keck/sandbox/seccomp_filter.h"

namespace kz::keck::sandbox {
namespace {

constexpr uid_t kProbeUid = 40000;

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Whether `attempt` succeeds in a process that is thrown away afterwards.
bool in_child(const std::function<bool()>& attempt) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) ::_exit(attempt() ? 0 : 1);
  return wait_for(child) == 0;
}

bool can_unshare(int flags) {
  return in_child([=] { return ::unshare(flags) == 0; });
}

// A zygote enters a box for one fork and comes back; root of a mere user namespace can't.
bool can_enter_and_leave_pid_ns() {
  return in_child([] {
    const Fd own(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
    return own && ::unshare(CLONE_NEWPID) == 0 && ::setns(own.get(), CLONE_NEWPID) == 0;
  });
}

// The whole way of a box, with an empty root.
bool can_make_private_root(bool keep_proc) {
  return in_child([=] {
    const char* what = "";
    auto folder = detached_tmpfs(1 << 20, std::nullopt);  // as the daemon does, from outside
    if (!folder || ::unshare(CLONE_NEWNS | CLONE_NEWPID) != 0) return false;
    const Fd own(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    if (!own) return false;
    Spec spec;
    spec.keep_proc = keep_proc;
    if (make_template(spec, &what) != 0) return false;
    spec.root_fd = own.get();
    spec.tmp_fd = folder->get();
    return in_child([&] { return enter_private_root(spec, &what) == 0; });
  });
}

bool become(uid_t uid) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(uid, uid, uid) == 0 && ::setresuid(uid, uid, uid) == 0 &&
         ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

// Reads a word of a waiting child's memory, which it shares by fork.
bool can_read_child(bool other_uid) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return false;
  const Fd read_end(fds[0]);
  Fd write_end(fds[1]);
  static const uint64_t kWord = 0x6b7a6b7a12345678;
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    if (other_uid && !become(kProbeUid)) ::_exit(1);
    if (::write(write_end.get(), "r", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  write_end.reset();
  char byte = 0;
  uint64_t copy = 0;
  iovec local{&copy, sizeof copy}, remote{const_cast<uint64_t*>(&kWord), sizeof kWord};
  const bool ok = ::read(read_end.get(), &byte, 1) == 1 &&
                  ::process_vm_readv(child, &local, 1, &remote, 1, 0) == sizeof copy && copy == kWord;
  ::kill(child, SIGKILL);
  wait_for(child);
  return ok;
}

bool can_filter() {
  return in_child([] {
    std::array<sock_filter, kFilterCapacity> program{};
    const size_t length = build_filter({}, program.data(), program.size());
    return length > 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && load_filter(program.data(), length) == 0;
  });
}

bool can_pidfd() {
  const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  return self && ::syscall(SYS_pidfd_send_signal, self.get(), 0, nullptr, 0) == 0;
}

void probe_cgroups(Capabilities* c) {
  const CgroupBase base = CgroupBase::make("probe");
  c->cgroup = base.mode();
  if (c->cgroup == CgroupMode::kNone) return;
  auto group = Cgroup::make(base, "try");
  constexpr uint64_t kBytes = 64 << 20;
  if (!group || !group->begin(kBytes, 16, base.has_cpu() ? 0.5 : 0)) return;
  c->memory_limit = base.has_memory();
  c->pids_limit = base.has_pids();
  c->cpu_limit = base.has_cpu();
  c->cgroup_kill = base.has_kill();
  c->cgroup_freeze = base.has_freeze();
}

}  // namespace

Capabilities probe_capabilities() {
  Capabilities c;
  utsname name{};
  if (::uname(&name) == 0) c.kernel = name.release;
  const auto status = read_file("/proc/self/status", 1 << 16);
  if (status) {
    const size_t at = status->find("CapEff:\t");
    if (at != std::string::npos) c.caps = status->substr(at + 8, 16);
  }
  c.root = ::geteuid() == 0;
  unsigned inside = 0, outside = 0, count = 0;
  const auto map = read_file("/proc/self/uid_map", 4096);
  c.in_user_ns = map && std::sscanf(map->c_str(), "%u %u %u", &inside, &outside, &count) == 3 && count != ~0U;
  c.mount_ns = can_unshare(CLONE_NEWNS);
  c.pid_ns = can_enter_and_leave_pid_ns();
  c.net_ns = can_unshare(CLONE_NEWNET);
  c.ipc_ns = can_unshare(CLONE_NEWIPC);
  c.uts_ns = can_unshare(CLONE_NEWUTS);
  c.user_ns = can_unshare(CLONE_NEWUSER);
  c.private_root = c.mount_ns && c.pid_ns && can_make_private_root(c.in_user_ns);
  probe_cgroups(&c);
  c.seccomp = can_filter();
  c.landlock_abi = landlock_abi();
  c.uid_switch = c.root && in_child([] { return become(kProbeUid); });
  c.vm_read = can_read_child(false);
  c.vm_read_other_uid = c.uid_switch && can_read_child(true);
  c.pidfd = can_pidfd();
  return c;
}

}  // namespace kz::keck::sandbox
