// Runs this binary's weak tests again as an ordinary user: once as in a container without privileges (no capability,
// new namespaces refused), once as root of a user namespace.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/files.h"

namespace kz::keck::sandbox {
namespace {

constexpr uid_t kNobody = 65534;

bool become_nobody() {
  for (int cap = 0; cap < 64; ++cap) ::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

// What a container runtime's filter does.
bool refuse_namespaces() {
  const sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 6, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 435 /* clone3 */, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET, 0, 2),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog fprog{std::size(program), const_cast<sock_filter*>(program)};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog) == 0;
}

// The exit code of the weak tests, run by nobody after `prepare`; 77 when nobody can't even start them.
int weak_tests_as_nobody(bool (*prepare)()) {
  std::array<char, 4096> self{};
  if (::readlink("/proc/self/exe", self.data(), self.size() - 1) < 0) return 78;
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!become_nobody()) ::_exit(78);
    if (::access(self.data(), X_OK) != 0) ::_exit(77);
    if (!prepare()) ::_exit(76);
    ::execl(self.data(), self.data(), "--gtest_filter=*/weak", "--gtest_brief=1", nullptr);
    ::_exit(77);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 79;
}

class AsNobodyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become nobody";
  }
  void check(int code) {
    if (code == 77) GTEST_SKIP() << "nobody can't read this build folder";
    if (code == 76) GTEST_SKIP() << "this host gives nobody no user namespace";
    EXPECT_EQ(code, 0);
  }
};

TEST_F(AsNobodyTest, InAContainerWithoutPrivileges) { check(weak_tests_as_nobody(refuse_namespaces)); }

// Root in a user namespace has capabilities that end at its border; what can't work must not be tried.
TEST_F(AsNobodyTest, AsRootOfAUserNamespace) {
  check(weak_tests_as_nobody([] {
    const auto put = [](const char* path, const char* text) {
      const Fd fd(::open(path, O_WRONLY | O_CLOEXEC));
      return fd && ::write(fd.get(), text, std::strlen(text)) == static_cast<ssize_t>(std::strlen(text));
    };
    return ::unshare(CLONE_NEWUSER) == 0 && put("/proc/self/setgroups", "deny") &&
           put("/proc/self/uid_map", "0 65534 1") && put("/proc/self/gid_map", "0 65534 1");
  }));
}

}  // namespace
}  // namespace kz::keck::sandbox
