#include "keck/sandbox/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace kz::keck::sandbox {
namespace {

constexpr size_t kStackBytes = 64 << 10;

struct ChildArguments {
  int executable;
  const char* const* argv;
  const char* const* env;
  const int* fds;
  int n_fds;
  int error;  // written by the child through the shared memory
};

// Runs on the daemon's memory until the exec: system calls only.
__attribute__((no_sanitize("address", "thread", "undefined"))) int child_main(void* argument) {
  auto* a = static_cast<ChildArguments*>(argument);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action{};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_DFL) {
      action.sa_handler = SIG_DFL;
      action.sa_flags = 0;
      sigaction(number, &action, nullptr);
    }
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Out of the way first: a target number may be the source of a later one.
  constexpr int kHigh = 64;
  int executable = fcntl(a->executable, F_DUPFD_CLOEXEC, kHigh);
  for (int i = 0; executable >= 0 && i < a->n_fds; ++i) {
    if (fcntl(a->fds[i], F_DUPFD, executable + 1 + i) != executable + 1 + i) {
      // A number in between was taken: find room above all of them and start again.
      const int higher = fcntl(executable, F_DUPFD_CLOEXEC, executable + 1 + a->n_fds);
      executable = higher;
      i = -1;
    }
  }
  if (executable < 0) {
    a->error = errno;
    _exit(71);
  }
  for (int i = 0; i < a->n_fds; ++i) {
    if (dup2(executable + 1 + i, i) < 0) {
      a->error = errno;
      _exit(71);
    }
  }
  syscall(SYS_close_range, static_cast<unsigned>(a->n_fds), ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  syscall(SYS_execveat, executable, "", a->argv, a->env, AT_EMPTY_PATH);
  a->error = errno;
  _exit(71);
}

std::vector<const char*> pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> out;
  for (const auto& s : strings) out.push_back(s.c_str());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<Spawned> spawn(const SpawnSpec& spec) {
  const auto argv = pointers(spec.argv), env = pointers(spec.env);
  ChildArguments arguments{
      spec.executable, argv.data(), env.data(), spec.fds.data(), static_cast<int>(spec.fds.size()), 0};
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return fail("host", "no memory for a sandboxed process: " + errno_text(errno));
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int pidfd = -1, error = 0;
  pid_t pid = -1;
  if (spec.box >= 0 && setns(spec.box, CLONE_NEWPID) != 0) {
    error = errno;
  } else {
    pid = clone(child_main, static_cast<char*>(stack) + kStackBytes,
                CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD | spec.namespaces, &arguments, &pidfd);
    error = pid < 0 ? errno : 0;
    // Back at once; this can only fail if the descriptor is wrong, and then this thread could start nothing any more.
    if (spec.box >= 0 && setns(spec.own_pid_ns, CLONE_NEWPID) != 0) error = errno;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  munmap(stack, kStackBytes);
  Spawned child{pid, Fd(pidfd)};
  if (pid > 0 && (error != 0 || arguments.error != 0)) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  if (error == 0) error = arguments.error;
  if (error != 0) {
    return fail("host", "can't start a sandboxed process (" + errno_text(error) + "): run `keck doctor`");
  }
  return child;
}

bool reap(const Spawned& child, double timeout_s, int* status, double* cpu_seconds) {
  if (child.pid <= 0) return true;
  pollfd fd{child.pidfd.get(), POLLIN, 0};
  int n = 0;
  while ((n = poll(&fd, 1, static_cast<int>(timeout_s * 1000))) < 0 && errno == EINTR) {
  }
  if (n <= 0) return false;
  int s = 0;
  rusage usage{};
  while (wait4(child.pid, &s, 0, &usage) < 0 && errno == EINTR) {
  }
  if (status != nullptr) *status = s;
  if (cpu_seconds != nullptr) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    *cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  return true;
}

}  // namespace kz::keck::sandbox
