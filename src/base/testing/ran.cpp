#include "base/testing/ran.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

namespace kz {

Ran run_to_end(const fs::path& program, const std::vector<std::string>& arguments, const RanOptions& options) {
  Ran ran;
  const auto folder = TempDir::make(fs::temp_directory_path(), "kz-ran-");
  if (!folder) {
    ran.err = folder.error().message;
    return ran;
  }
  const std::string out = options.output.empty() ? (folder->path() / "out").string() : options.output;
  const std::string err = folder->path() / "err";
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
  while (::waitpid(pid, &status, options.kill_after_s ? WNOHANG : 0) == 0) {
    if (watch.seconds() < *options.kill_after_s) {
      ::usleep(2000);
      continue;
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    break;
  }
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (options.output.empty()) ran.out = read_file(out).value_or("");
  ran.err = read_file(err).value_or("");
  return ran;
}

}  // namespace kz
