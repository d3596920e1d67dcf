#include "integration/run_keck.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

namespace kz::keck {

Layout test_layout() {
  auto layout = find_layout();
  if (layout) return *layout;
  std::fprintf(stderr, "%s\n", layout.error().message.c_str());
  std::abort();
}

Ran run_keck(const std::vector<std::string>& arguments) { return run_program("keck", arguments); }

Ran run_program(const std::string& name, const std::vector<std::string>& arguments, const std::string& output) {
  const TempDir folder = *TempDir::make(fs::temp_directory_path(), "kdaemon_run");
  const std::string program = test_layout().bin / name,
                    out = output.empty() ? (folder.path() / "out").string() : output, err = folder.path() / "err";
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
  Ran ran;
  if (error != 0) {
    ran.err = errno_text(error);
    return ran;
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (output.empty()) ran.out = read_file(out).value_or("");
  ran.err = read_file(err).value_or("");
  return ran;
}

std::vector<int> family_of(int pid) {
  std::multimap<int, int> children;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const int id = std::atoi(entry.path().filename().c_str());
    std::ifstream stat(entry.path() / "stat");
    std::string text;
    if (id <= 0 || !std::getline(stat, text)) continue;
    int parent = 0;
    if (std::sscanf(text.c_str() + text.rfind(')'), ") %*c %d", &parent) == 1) children.emplace(parent, id);
  }
  std::vector<int> family = {pid};
  for (size_t i = 0; i < family.size(); ++i) {
    const auto [begin, end] = children.equal_range(family[i]);
    for (auto child = begin; child != end; ++child) family.push_back(child->second);
  }
  return family;
}

bool alive(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  const size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] != 'Z';
}

}  // namespace kz::keck
