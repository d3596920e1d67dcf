#include "keck/client/local_server.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/clock.h"
#include "base/text.h"
#include "keck/job/journal.h"

namespace kz::keck {
namespace {

std::string last_lines(const fs::path& file, size_t limit) {
  auto text = read_file(file);
  if (!text) return "";
  if (text->size() > limit) text->erase(0, text->size() - limit);
  return std::string(trim(*text));
}

// A state folder serves one daemon at a time; the caches of the first ones are warm, so these are taken first.
fs::path free_state(const fs::path& parent) {
  for (int n = 0;; ++n) {
    const fs::path folder = parent / ("local-" + std::to_string(n));
    if (!Journal::in_use(folder / "journal.db")) return folder;
  }
}

void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace

struct LocalServer::Process {
  pid_t pid = -1;
  std::string url;

  ~Process() { stop(); }

  // True when it has ended; `status` as of waitpid.
  bool ended(int& status) {
    if (pid < 0) return true;
    if (::waitpid(pid, &status, WNOHANG) == 0) return false;
    pid = -1;
    return true;
  }

  void stop() {
    int status = 0;
    if (ended(status)) return;
    ::kill(pid, SIGTERM);
    for (const Stopwatch watch; watch.seconds() < 10; pause_ms(20))
      if (ended(status)) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    pid = -1;
  }
};

LocalServer::LocalServer(std::unique_ptr<Process> process) : process_(std::move(process)) {}
LocalServer::~LocalServer() = default;
LocalServer::LocalServer(LocalServer&&) noexcept = default;
LocalServer& LocalServer::operator=(LocalServer&&) noexcept = default;

const std::string& LocalServer::url() const { return process_->url; }
int LocalServer::pid() const { return process_->pid; }
void LocalServer::stop() { process_->stop(); }

Result<LocalServer> LocalServer::start(const LocalServerOptions& options) {
  const fs::path state = options.state.empty() ? free_state(options.layout.state) : options.state;
  const fs::path log = options.log.empty() ? state / "serve.log" : options.log;
  KZ_TRY(make_dirs(state));
  KZ_TRY(make_dirs(log.parent_path()));
  KZ_ASSIGN(const TempDir scratch, TempDir::make(state, "port"));
  const fs::path port_file = scratch.path() / "address";
  const fs::path program = options.layout.bin / "keck";
  if (::access(program.c_str(), X_OK) != 0)
    return fail("host", program.string() + " is missing: run `make build`, or give the URL of a running server");

  std::vector<std::string> words = {
      program.string(),   "serve",        "--listen",    "127.0.0.1:" + std::to_string(options.port),
      "--state",          state.string(), "--port-file", port_file.string(),
      "--die-with-parent"};
  if (options.workers > 0) words.insert(words.end(), {"--workers", std::to_string(options.workers)});
  if (!options.resume_jobs) words.insert(words.end(), {"--set", "journal.resume=false"});
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const Fd output(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!output) return fail("io", log.string() + ": " + errno_text(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, output.get(), 2);
  auto process = std::make_unique<Process>();
  const int error = ::posix_spawn(&process->pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    process->pid = -1;
    return fail("host", "cannot start " + program.string() + ": " + errno_text(error));
  }

  for (const Stopwatch watch; watch.seconds() < options.start_timeout_s; pause_ms(20)) {
    if (int status = 0; process->ended(status))
      return fail("host", "keck serve did not start: " + last_lines(log, 600) + " (its log is " + log.string() + ")");
    if (process->url.empty()) {
      const auto address = read_file(port_file);
      if (!address) continue;
      process->url = "http://" + std::string(trim(*address));
    }
    KZ_ASSIGN(const Client client, Client::make({.url = process->url, .retry_s = 0}));
    if (client.get("/readyz")) return LocalServer(std::move(process));
    pause_ms(80);
  }
  return fail("host", "keck serve was not ready after " + std::to_string(static_cast<int>(options.start_timeout_s)) +
                          " s: " + last_lines(log, 600) + " (its log is " + log.string() + ")");
}

}  // namespace kz::keck
