// What needs no privilege and no process: texts, decisions, the seccomp program as data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "keck/sandbox/capabilities.h"
#include "keck/sandbox/capture.h"
#include "keck/sandbox/cgroup_mounts.h"
#include "keck/sandbox/seccomp_filter.h"
#include "keck/sandbox/spec.h"

namespace kz::keck::sandbox {
namespace {

using ::testing::HasSubstr;

TEST(SpecTest, ReadsLinesInPlace) {
  char text[] = "version=1\nuid=7\ncgroup=/a/cgroup.procs\ncgroup=/b/cgroup.procs\nprocesses=0\ncwd=/tmp\n";
  Spec spec;
  ASSERT_TRUE(parse_spec(text, &spec));
  EXPECT_EQ(spec.uid, 7);
  ASSERT_EQ(spec.n_cgroups, 2);
  EXPECT_STREQ(spec.cgroups[1], "/b/cgroup.procs");
  EXPECT_FALSE(spec.processes);
  EXPECT_STREQ(spec.cwd, "/tmp");
}

TEST(SpecTest, RefusesWhatItDoesNotKnow) {
  for (const char* bad : {"", "version=2\n", "uid=1\n", "version=1\ncolour=red\n", "version=1\nuid\n"}) {
    std::array<char, 64> text{};
    std::strcpy(text.data(), bad);  // NOLINT: the literals are short
    Spec spec;
    EXPECT_FALSE(parse_spec(text.data(), &spec)) << bad;
  }
}

TEST(CaptureTest, KeepsHeadAndTailOfAFlood) {
  Capture capture(100);
  capture.add("first ");
  for (int i = 0; i < 10000; ++i) capture.add("middle ");
  capture.add("last");
  const std::string text = capture.text();
  EXPECT_EQ(text.rfind("first ", 0), 0U);
  EXPECT_EQ(text.substr(text.size() - 4), "last");
  EXPECT_THAT(text, HasSubstr(std::to_string(6 + 70000 + 4 - 100) + " bytes left out"));
  EXPECT_LT(text.size(), 160U);
}

TEST(CaptureTest, ShortTextStaysWhole) {
  Capture capture(10);
  capture.add("0123456");
  capture.add("789");
  EXPECT_EQ(capture.text(), "0123456789");
}

TEST(CgroupMountsTest, HybridHost) {
  const auto mounts = parse_cgroup_mounts(
      "30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
      "31 30 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
      "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
      "33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
      "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/me\n");
  ASSERT_EQ(mounts.size(), 3U);
  EXPECT_TRUE(mounts[0].memory && !mounts[0].v2);
  EXPECT_EQ(mounts[0].own, "/sys/fs/cgroup/memory/a/b");
  EXPECT_TRUE(mounts[1].cpu);
  EXPECT_EQ(mounts[1].own, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_TRUE(mounts[2].v2);
  EXPECT_EQ(mounts[2].own, "/sys/fs/cgroup/unified/me");
}

TEST(CgroupMountsTest, ContainerSeesAPartOfTheTree) {
  const auto mounts =
      parse_cgroup_mounts("33 30 0:29 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/abc/child\n");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].own, "/sys/fs/cgroup/child");
}

Capabilities everything() {
  Capabilities c;
  c.mount_ns = c.pid_ns = c.net_ns = c.ipc_ns = c.uts_ns = c.private_root = c.seccomp = c.pidfd = true;
  c.uid_switch = c.vm_read_other_uid = c.memory_limit = c.pids_limit = true;
  return c;
}

TEST(ChooseTest, AutoTakesTheBest) {
  EXPECT_EQ(choose(everything(), "auto"), Level::kStrong);
  EXPECT_EQ(choose(everything(), "strong"), Level::kStrong);
  EXPECT_EQ(choose(everything(), "weak"), Level::kWeak);
  Capabilities c = everything();
  c.memory_limit = false;
  EXPECT_EQ(choose(c, "auto"), Level::kWeak);
}

TEST(ChooseTest, RefusesBelowTheConfiguredLevelAndSaysWhy) {
  Capabilities c = everything();
  c.pid_ns = c.memory_limit = false;
  const auto level = choose(c, "strong");
  ASSERT_FALSE(level);
  EXPECT_EQ(level.error().code, "host");
  EXPECT_THAT(level.error().message, HasSubstr("namespaces"));
  EXPECT_THAT(level.error().message, HasSubstr("memory control group"));
  EXPECT_THAT(level.error().message, HasSubstr("auto"));
  EXPECT_EQ(level.error().message.find('\n'), std::string::npos);
  c.seccomp = false;
  EXPECT_EQ(choose(c, "auto").error().code, "host");
  EXPECT_EQ(choose(c, "medium").error().code, "config");
}

TEST(ChooseTest, WhatIsMissingIsNamed) {
  EXPECT_FALSE(missing(Capabilities{}, Level::kWeak).empty());
  EXPECT_THAT(missing(Capabilities{}, Level::kWeak), ::testing::Contains(HasSubstr("Landlock")));
}

// Interprets the few BPF instructions that the filter uses.
uint32_t verdict(const std::array<sock_filter, kFilterCapacity>& program, size_t length, const seccomp_data& data) {
  uint32_t a = 0;
  for (size_t pc = 0; pc < length; ++pc) {
    const sock_filter& i = program[pc];
    switch (i.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&a, reinterpret_cast<const char*>(&data) + i.k, sizeof a);
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        pc += a == i.k ? i.jt : i.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        pc += a >= i.k ? i.jt : i.jf;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        pc += (a & i.k) != 0 ? i.jt : i.jf;
        break;
      case BPF_RET | BPF_K:
        return i.k;
      default:
        ADD_FAILURE() << "unknown instruction " << i.code;
        return 0;
    }
  }
  ADD_FAILURE() << "fell off the end";
  return 0;
}

class FilterTest : public ::testing::Test {
 protected:
  uint32_t ask(const FilterOptions& options, long number, uint64_t first = 0, uint64_t second = 0) {
    std::array<sock_filter, kFilterCapacity> program{};
    const size_t length = build_filter(options, program.data(), program.size());
    EXPECT_GT(length, 0U);
    seccomp_data data{};
    data.nr = static_cast<int>(number);
#if defined(__x86_64__)
    data.arch = AUDIT_ARCH_X86_64;
#else
    data.arch = AUDIT_ARCH_AARCH64;
#endif
    data.args[0] = first;
    data.args[1] = second;
    return verdict(program, length, data);
  }
  static constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
  static uint32_t refused(int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); }
};

TEST_F(FilterTest, DeniesTheListAndNothingElse) {
  for (long number : {SYS_ptrace, SYS_process_vm_readv, SYS_bpf, SYS_mount, SYS_unshare, SYS_setns, SYS_keyctl}) {
    EXPECT_EQ(ask({}, number), refused(EPERM)) << number;
  }
  EXPECT_EQ(ask({}, SYS_io_uring_setup), refused(ENOSYS));
  EXPECT_EQ(ask({}, SYS_socket), refused(EACCES));
  for (long number : {SYS_read, SYS_mmap, SYS_futex, SYS_socketpair, SYS_execve, SYS_sched_setaffinity, SYS_kill}) {
    EXPECT_EQ(ask({}, number), kAllow) << number;
  }
}

TEST_F(FilterTest, ProcessesAndThreads) {
  constexpr uint64_t kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
  EXPECT_EQ(ask({}, SYS_clone, SIGCHLD), kAllow);
  EXPECT_EQ(ask({}, SYS_clone, SIGCHLD | CLONE_NEWUSER), refused(EPERM));
  FilterOptions no_processes;
  no_processes.processes = false;
  EXPECT_EQ(ask(no_processes, SYS_clone, SIGCHLD), refused(EPERM));
  EXPECT_EQ(ask(no_processes, SYS_clone, kThread), kAllow);
  EXPECT_EQ(ask(no_processes, SYS_execve), refused(EPERM));
  EXPECT_EQ(ask(no_processes, 435 /* clone3 */), refused(ENOSYS));
}

TEST_F(FilterTest, SignalsToOthers) {
  FilterOptions own;
  own.foreign_signals = false;
  own.self = 4711;
  EXPECT_EQ(ask(own, SYS_kill, 4711), kAllow);
  EXPECT_EQ(ask(own, SYS_kill, 0), kAllow);
  EXPECT_EQ(ask(own, SYS_kill, 1), refused(EPERM));
  EXPECT_EQ(ask(own, SYS_kill, static_cast<uint32_t>(-1)), refused(EPERM));
  EXPECT_EQ(ask(own, SYS_tgkill, 1), refused(EPERM));
  EXPECT_EQ(ask(own, SYS_prlimit64, 1), refused(EPERM));
  EXPECT_EQ(ask(own, SYS_setpriority, 0, 1), refused(EPERM));
  EXPECT_EQ(ask(own, SYS_setpriority, 0, 0), kAllow);
  EXPECT_EQ(ask(own, SYS_read, 1), kAllow);
}

TEST_F(FilterTest, OtherArchitecturesDie) {
  std::array<sock_filter, kFilterCapacity> program{};
  const size_t length = build_filter({}, program.data(), program.size());
  seccomp_data data{};
  data.arch = AUDIT_ARCH_I386;
  EXPECT_EQ(verdict(program, length, data), SECCOMP_RET_KILL_PROCESS);
}

TEST_F(FilterTest, TooSmallABufferIsSeen) {
  std::array<sock_filter, 8> program{};
  EXPECT_EQ(build_filter({}, program.data(), program.size()), 0U);
}

}  // namespace
}  // namespace kz::keck::sandbox
