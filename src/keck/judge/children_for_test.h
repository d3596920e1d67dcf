// Real torch children for tests: a Python host that imports torch once and forks them (testdata/child_host.py).
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/json.h"
#include "base/layout.h"
#include "keck/judge/judge.h"

namespace kz::keck {

// A child and its socket; killed when it goes.
class TestChild {
 public:
  TestChild(Fd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}
  TestChild(TestChild&& other) noexcept : socket_(std::move(other.socket_)), pid_(other.pid_) { other.pid_ = -1; }
  ~TestChild() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }
  JudgeChild handle() const { return {socket_.get(), pid_}; }

 private:
  Fd socket_;
  pid_t pid_;
};

class ChildHost {
 public:
  explicit ChildHost(const Layout& layout) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
    control_ = Fd(ends[0]);
    const std::string script = (layout.root / "src/keck/judge/testdata/child_host.py").string();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 3);
      for (int fd = 4; fd < 64; ++fd) ::close(fd);
      ::setenv("PYTHONPATH", layout.worker.c_str(), 1);
      ::setenv("OMP_NUM_THREADS", "1", 1);
      ::execl(layout.python.c_str(), layout.python.c_str(), script.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    EXPECT_EQ(line(), "ready");
  }
  ~ChildHost() {
    control_.reset();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  TestChild fork(const std::string& role, const std::string& source) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    const std::string request = dump_json({{"role", role}, {"source", source}});
    iovec io{const_cast<char*>(request.data()), request.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(c)) = ends[1];
    EXPECT_EQ(::sendmsg(control_.get(), &message, 0), static_cast<ssize_t>(request.size()));
    ::close(ends[1]);
    return TestChild(Fd(ends[0]), std::stoi(line()));
  }

 private:
  std::string line() {
    std::string out;
    char c = 0;
    while (::read(control_.get(), &c, 1) == 1 && c != '\n') out += c;
    return out;
  }

  Fd control_;
  pid_t pid_ = -1;
};

}  // namespace kz::keck
