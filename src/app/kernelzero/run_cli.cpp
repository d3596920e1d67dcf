#include "app/kernelzero/run_cli.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/layout.h"

namespace kz::app {

Ran run_cli(const std::vector<std::string>& arguments, std::optional<double> kill_after_s) {
  Ran ran;
  const auto layout = find_layout();
  if (!layout) {
    ran.err = layout.error().message;
    return ran;
  }
  const TempDir folder = *TempDir::make(fs::temp_directory_path(), "kevolve-cli-");
  const std::string program = layout->bin / "kernelzero", out = folder.path() / "out", err = folder.path() / "err";
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), program);
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    ran.err = errno_text(error);
    return ran;
  }
  int status = 0;
  const Stopwatch watch;
  while (::waitpid(pid, &status, kill_after_s ? WNOHANG : 0) == 0) {
    if (watch.seconds() < *kill_after_s) {
      ::usleep(2000);
      continue;
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    break;
  }
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.out = read_file(out).value_or("");
  ran.err = read_file(err).value_or("");
  return ran;
}

}  // namespace kz::app
