// Slots and kz_confine against the real kernel. The test process plays the zygote: it has one thread and forks.
#include "keck/sandbox/slot.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "keck/sandbox/confine.h"
#include "keck/sandbox/test_levels.h"

namespace kz::keck::sandbox {
namespace {

using ::testing::HasSubstr;

// Shared with the confined child, so that it can tell without a descriptor.
struct Board {
  std::atomic<long> counter, value[8];
};

class SlotTest : public LevelTest {
 protected:
  void SetUp() override {
    board_ =
        static_cast<Board*>(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(kz_zygote_init(), 0);
    LevelTest::SetUp();
  }
  void TearDown() override { ::munmap(board_, sizeof(Board)); }

  std::unique_ptr<Slot> slot(const Limits& limits = {}) {
    auto slot = pool_->acquire(limits);
    EXPECT_TRUE(slot) << slot.error().message;
    return slot ? std::move(*slot) : nullptr;
  }

  // Forks a child into the slot, confines it, runs `body` there; its return value is the exit code, 99 a failed lock.
  pid_t start(Slot& slot, const std::function<int()>& body, const std::vector<int>& keep = {}) {
    EXPECT_EQ(kz_before_fork(slot.child_spec().c_str()), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      char error[256];
      if (kz_confine(slot.child_spec().c_str(), keep.data(), static_cast<int>(keep.size()), error, sizeof error) != 0) {
        std::snprintf(reinterpret_cast<char*>(board_->value), sizeof board_->value, "%.63s", error);
        ::_exit(99);
      }
      ::_exit(body());
    }
    EXPECT_EQ(kz_after_fork(), 0);
    slot.adopt(pid);
    return pid;
  }
  int end_of(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 99) {
      ADD_FAILURE() << "not confined: " << reinterpret_cast<char*>(board_->value);
    }
    return status;
  }
  int exit_of(Slot& slot, const std::function<int()>& body, const std::vector<int>& keep = {}) {
    const int status = end_of(start(slot, body, keep));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  bool wait_for(const std::function<bool()>& done) {
    const Stopwatch watch;
    while (!done() && watch.seconds() < 5) ::usleep(1000);
    return done();
  }

  Board* board_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Levels, SlotTest, ::testing::Values(std::string("strong"), std::string("weak")),
                         [](const auto& level) { return level.param; });

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

TEST_P(SlotTest, TheChildIsLockedIn) {
  auto s = slot();
  const int code = exit_of(*s, [&] {
    board_->value[0] = ::getuid();
    board_->value[1] = ::getpid();
    board_->value[2] = ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    board_->value[3] = ::prctl(PR_GET_DUMPABLE);
    const int file = ::open("mine", O_WRONLY | O_CREAT, 0600);
    board_->value[4] = file >= 0 && ::write(file, "x", 1) == 1;
    rlimit core{};
    ::getrlimit(RLIMIT_CORE, &core);
    board_->value[5] = static_cast<long>(core.rlim_max);
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(board_->value[0], static_cast<long>(s->uid()));
  EXPECT_EQ(board_->value[2], 1);
  EXPECT_EQ(board_->value[3], 1);
  EXPECT_EQ(board_->value[4], 1);
  EXPECT_EQ(board_->value[5], 0);
  if (boxes()) {
    EXPECT_EQ(board_->value[1], 2);
  }
  if (strong()) {
    EXPECT_NE(s->uid(), ::getuid());
  }
}

TEST_P(SlotTest, OnlyTheNamedDescriptorsStay) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const Fd ours(pair[0]), theirs(pair[1]);
  const Fd leak(::open("/etc/hostname", O_RDONLY));
  auto s = slot();
  const int code = exit_of(*s,
                           [&] {
                             int open = 0;
                             for (int fd = 3; fd < 1000; ++fd) open += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
                             // 1 and 2 were not named either: they are /dev/null now.
                             return open == 1 && ::write(theirs.get(), "hi", 2) == 2 && ::write(1, "x", 1) == 1 ? 0 : 1;
                           },
                           {theirs.get()});
  EXPECT_EQ(code, 0);
  char text[2] = {};
  EXPECT_EQ(::read(ours.get(), text, 2), 2);
}

TEST_P(SlotTest, SeccompRefusesTheList) {
  auto s = slot();
  const struct {
    long number;
    int error;
  } calls[] = {{SYS_ptrace, EPERM},
               {SYS_process_vm_readv, EPERM},
               {SYS_process_vm_writev, EPERM},
               {SYS_bpf, EPERM},
               {SYS_perf_event_open, EPERM},
               {SYS_userfaultfd, EPERM},
               {SYS_io_uring_setup, ENOSYS},
               {SYS_keyctl, EPERM},
               {SYS_add_key, EPERM},
               {SYS_mount, EPERM},
               {SYS_umount2, EPERM},
               {SYS_pivot_root, EPERM},
               {SYS_setns, EPERM},
               {SYS_unshare, EPERM},
               {SYS_socket, EACCES},
               {SYS_kexec_load, EPERM},
               {SYS_init_module, EPERM},
               {SYS_reboot, EPERM},
               {SYS_chroot, EPERM},
               {SYS_open_by_handle_at, EPERM},
               {SYS_sched_setaffinity, EPERM},
               {SYS_personality, EPERM},
               {SYS_clone3, ENOSYS},
               {SYS_syslog, EPERM}};
  for (const auto& call : calls) {
    const int code = exit_of(*s, [&] {
      errno = 0;
      return ::syscall(call.number, 0, 0, 0, 0, 0, 0) == -1 ? errno : 0;
    });
    EXPECT_EQ(code, call.error) << "system call " << call.number;
  }
  EXPECT_EQ(exit_of(*s, [] { return ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) == -1 ? errno : 0; }),
            EPERM);
}

void* add_one(void* argument) {
  static_cast<Board*>(argument)->counter += 1;
  return nullptr;
}

TEST_P(SlotTest, ThreadsAreAllowedAndProcessesWhereTheLimitsSay) {
  Limits limits;
  limits.allow_processes = false;
  auto without = slot(limits);
  EXPECT_EQ(exit_of(*without,
                    [&] {
                      pthread_t thread{};
                      if (::pthread_create(&thread, nullptr, add_one, board_) != 0) return 1;
                      ::pthread_join(thread, nullptr);
                      return ::fork() == -1 && errno == EPERM ? 0 : 2;
                    }),
            0);
  EXPECT_EQ(board_->counter, 1);
  auto with = slot();
  const int code = exit_of(*with, [&] {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    return pid > 0 ? 0 : errno;
  });
  EXPECT_EQ(code, boxes() ? 0 : EPERM);
}

TEST_P(SlotTest, TheJudgeReadsTheChildsMemory) {
  auto s = slot();
  static volatile uint64_t word = 0;
  const pid_t pid = start(*s, [&] {
    word = 0x1234;
    board_->counter = 1;
    sleep_for_ever();
    return 0;
  });
  ASSERT_TRUE(wait_for([&] { return board_->counter == 1; }));
  uint64_t copy = 0;
  iovec local{&copy, sizeof copy}, remote{const_cast<uint64_t*>(&word), sizeof word};
  EXPECT_EQ(::process_vm_readv(pid, &local, 1, &remote, 1, 0), static_cast<ssize_t>(sizeof copy)) << errno_text(errno);
  EXPECT_EQ(copy, 0x1234U);
  EXPECT_TRUE(s->kill_all());
  end_of(pid);
}

TEST_P(SlotTest, FreezeStopsAndThawContinues) {
  auto s = slot();
  const pid_t pid = start(*s, [&] {
    for (;;) board_->counter += 1;
    return 0;
  });
  ASSERT_TRUE(wait_for([&] { return board_->counter > 1000; }));
  constexpr double kBusyHost = 5;  // a child that waits for a core stops only when it gets one
  ASSERT_TRUE(s->freeze(kBusyHost));
  const long at = board_->counter;
  ::usleep(30'000);
  EXPECT_EQ(board_->counter, at);
  ASSERT_TRUE(s->thaw());
  EXPECT_TRUE(wait_for([&] { return board_->counter > at; }));
  EXPECT_GT(s->cpu_seconds(), 0);
  // A frozen slot dies as well.
  ASSERT_TRUE(s->freeze(kBusyHost));
  EXPECT_TRUE(s->kill_all());
  EXPECT_EQ(end_of(pid), SIGKILL);
  EXPECT_TRUE(s->empty());
}

TEST_P(SlotTest, KillTakesEveryDescendant) {
  auto s = slot();
  if (!boxes()) GTEST_SKIP() << "a weak child starts no process";
  const pid_t pid = start(*s, [&] {
    for (int i = 0; i < 5; ++i) {
      if (::fork() != 0) continue;
      ::setsid();
      if (::fork() != 0) ::_exit(0);
      ::signal(SIGTERM, SIG_IGN);
      for (;;) board_->counter += 1;
    }
    sleep_for_ever();
    return 0;
  });
  ASSERT_TRUE(wait_for([&] { return board_->counter > 1000; }));
  EXPECT_FALSE(s->empty());
  ASSERT_TRUE(s->kill_all());
  const long at = board_->counter;
  EXPECT_TRUE(s->empty());
  ::usleep(20'000);
  EXPECT_EQ(board_->counter, at);
  EXPECT_EQ(end_of(pid), SIGKILL);
}

TEST_P(SlotTest, MemoryIsLimited) {
  Limits limits;
  limits.memory_bytes = 64 << 20;
  auto s = slot(limits);
  const int code = exit_of(*s, [] {
    constexpr size_t kBytes = 512 << 20;
    void* p = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 3;
    std::memset(p, 1, kBytes);
    return 0;
  });
  if (pool_->describe()["memory"] == "cgroup") {
    EXPECT_EQ(code, -SIGKILL);
    EXPECT_EQ(s->oom_kills(), 1U);
    EXPECT_GT(s->memory_peak(), 60U << 20);
    auto next = slot(limits);  // another slot is untouched, and so is this place later
    s.reset();
    EXPECT_EQ(slot(limits)->oom_kills(), 0U);
  } else {
    EXPECT_EQ(code, 3);
  }
}

TEST_P(SlotTest, FoldersStartEmpty) {
  for (int i = 0; i < 2; ++i) {
    auto s = slot();
    EXPECT_EQ(exit_of(*s,
                      [] {
                        if (::access("left-behind", F_OK) == 0) return 1;
                        const int fd = ::open("left-behind", O_WRONLY | O_CREAT, 0600);
                        return fd >= 0 ? 0 : 2;
                      }),
              0);
  }
}

TEST_P(SlotTest, SlotsAreCounted) {
  std::vector<std::unique_ptr<Slot>> all;
  for (int i = 0; i < 8; ++i) all.push_back(slot());
  EXPECT_EQ(pool_->acquire({}).error().code, "busy");
  all.pop_back();
  EXPECT_TRUE(pool_->acquire({}));
}

TEST_P(SlotTest, ABadSpecIsRefused) {
  EXPECT_EQ(kz_before_fork("nonsense"), -EINVAL);
  EXPECT_EQ(kz_before_fork("version=99\n"), -EINVAL);
  EXPECT_EQ(kz_before_fork(nullptr), -EINVAL);
  EXPECT_EQ(kz_after_fork(), 0);
}

// The daemon dies by kill -9; the zygote (another process) lives on. Nothing of the slot may stay.
TEST_P(SlotTest, ABoxDiesWithItsDaemon) {
  if (!boxes()) GTEST_SKIP() << "at weak a child dies with its zygote";
  pool_.reset();
  int pipe_fds[2];
  ASSERT_EQ(::pipe2(pipe_fds, O_CLOEXEC), 0);
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    make_pool(Level::kStrong);
    auto s = slot();
    const auto size = static_cast<ssize_t>(s->child_spec().size() + 1);
    if (::write(pipe_fds[1], s->child_spec().c_str(), s->child_spec().size() + 1) != size) ::_exit(1);
    sleep_for_ever();
  }
  char spec[4096] = {};
  ASSERT_GT(::read(pipe_fds[0], spec, sizeof spec - 1), 0);
  ASSERT_EQ(kz_before_fork(spec), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char error[64];
    if (kz_confine(spec, nullptr, 0, error, sizeof error) != 0) ::_exit(99);
    board_->counter = 1;
    sleep_for_ever();
  }
  ASSERT_EQ(kz_after_fork(), 0);
  ASSERT_TRUE(wait_for([&] { return board_->counter == 1; }));
  ::kill(daemon, SIGKILL);
  EXPECT_EQ(end_of(child), SIGKILL);
  end_of(daemon);
  make_pool(Level::kStrong);  // removes the groups that the dead daemon left
  for (const auto& entry :
       fs::recursive_directory_iterator("/sys/fs/cgroup", fs::directory_options::skip_permission_denied)) {
    EXPECT_NE(entry.path().filename().string().rfind("keck-" + std::to_string(daemon) + "-", 0), 0U) << entry.path();
  }
}

TEST_P(SlotTest, OneChildCostsLittle) {
  const auto cpu = [] {
    double total = 0;
    for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
      rusage r{};
      ::getrusage(static_cast<__rusage_who>(who), &r);
      total += static_cast<double>(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
               1e-6 * static_cast<double>(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
    }
    return total;
  };
  exit_of(*slot(), [] { return 0; });
  const double start = cpu();
  constexpr int kChildren = 100;
  for (int i = 0; i < kChildren; ++i) ASSERT_EQ(exit_of(*slot(), [] { return 0; }), 0);
  const double each = (cpu() - start) / kChildren;
  std::printf("[   cost   ] %.2f ms CPU a slot with one child, fork included\n", each * 1000);
  EXPECT_LT(each, 0.008);
}

}  // namespace
}  // namespace kz::keck::sandbox
