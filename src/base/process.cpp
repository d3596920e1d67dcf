#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"

namespace kz {
namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

// Writes and reads at the same time: a program that answers before it has read all would else block both sides.
std::string exchange(int fd, std::string_view input) {
  std::string output;
  char buffer[1 << 16];
  bool writing = true;
  while (true) {
    if (writing && input.empty()) {
      ::shutdown(fd, SHUT_WR);
      writing = false;
    }
    pollfd wait{fd, static_cast<short>(POLLIN | (writing ? POLLOUT : 0)), 0};
    if (::poll(&wait, 1, -1) < 0 && errno != EINTR) return output;
    if ((wait.revents & POLLOUT) != 0) {
      const ssize_t n = ::send(fd, input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0)
        input.remove_prefix(static_cast<size_t>(n));
      else if (n < 0 && errno != EAGAIN && errno != EINTR)
        input = {};  // it reads no more: take its answer
    }
    if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      const ssize_t n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0)
        output.append(buffer, static_cast<size_t>(n));
      else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        return output;
    }
  }
}

}  // namespace

Result<std::string> run_program(const std::vector<std::string>& argv, std::string_view input,
                                const std::vector<std::string>& environment) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return fail("process", "socketpair: " + errno_text(errno));
  Fd ours(pair[0]), theirs(pair[1]);

  std::vector<std::string> arguments = argv, variables = environment;
  for (char** e = environ; *e != nullptr; ++e) variables.emplace_back(*e);  // the first of equal names wins in getenv
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv.front().c_str(), &actions, nullptr, pointers(arguments).data(),
                                   pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail("process", "cannot run " + argv.front() + ": " + errno_text(error));
  theirs.reset();

  std::string output = exchange(ours.get(), input);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  const std::string how = WIFSIGNALED(status) ? "ended by signal " + std::to_string(WTERMSIG(status))
                                              : "exit " + std::to_string(WEXITSTATUS(status));
  return fail("process", argv.front() + ": " + how);
}

}  // namespace kz
