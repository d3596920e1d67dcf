#include "keck/build/precompiled.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "keck/build/unit.h"

namespace kz::keck {
namespace {

constexpr size_t kSlimClasses = 6;  // 160 MB each
constexpr size_t kFullClasses = 2;  // 1 GB each
constexpr const char* kHeader = "kz_unit.h";

bool complete(const fs::path& folder) { return fs::exists(folder / (std::string(kHeader) + ".gch")); }

}  // namespace

Precompiled::Precompiled(const Kit& kit, fs::path dir, std::string compiler)
    : kit_(kit), dir_(std::move(dir)), compiler_(std::move(compiler)) {}

Precompiled::~Precompiled() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const pid_t group : running_) ::kill(-group, SIGKILL);
  }
  for (std::thread& thread : background_) thread.join();
}

std::string Precompiled::class_of(Headers headers, const Flags& flags) const {
  std::vector<std::string> key = class_flags(flags, kit_);
  std::sort(key.begin(), key.end());
  const std::string hash =
      sha256_hex((headers == Headers::kSlim ? kit_.slim_key : "") + "\n" + compiler_ + "\n" + join(key, "\n"));
  return std::string(to_string(headers)) + "-" + hash.substr(0, 16);
}

Result<fs::path> Precompiled::slim(const Flags& flags) { return get(Headers::kSlim, flags, true); }
Result<fs::path> Precompiled::full_now(const Flags& flags) { return get(Headers::kFull, flags, true); }
fs::path Precompiled::full(const Flags& flags) { return get(Headers::kFull, flags, false).value_or(fs::path()); }

Result<fs::path> Precompiled::get(Headers headers, const Flags& flags, bool wait) {
  const std::string name = class_of(headers, flags);
  const fs::path folder = dir_ / name;
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[name];
  if (entry.ready) return folder;
  if (!entry.error.empty()) return fail("toolchain", entry.error);
  if (complete(folder)) {
    entry.ready = true;
    std::error_code error;
    fs::last_write_time(folder, fs::file_time_type::clock::now(), error);  // a use, for make_room
    return folder;
  }
  if (!entry.making && !make_room(headers)) return fail("toolchain", "as many precompiled headers as are kept");
  const auto work = [this, headers, flags, folder, name] {
    const auto made = make(headers, flags, folder);
    std::lock_guard guard(mutex_);
    Entry& done = entries_[name];
    done.making = false;
    done.ready = made.has_value();
    if (!made && !stopping_) {
      done.error = made.error().message;
      log::warn("precompiled headers (" + name + "): " + done.error);
    }
    made_.notify_all();
  };
  if (!entry.making) {
    entry.making = true;
    if (wait) {
      lock.unlock();
      work();
      lock.lock();
    } else {
      background_.emplace_back(work);
    }
  }
  if (!wait) return fs::path();
  made_.wait(lock, [&] { return !entries_[name].making; });
  if (!entries_[name].ready) return fail("toolchain", entries_[name].error);
  return folder;
}

// Removes the longest unused of other runs until one more fits; those of this run stay. False when none can go.
bool Precompiled::make_room(Headers headers) {
  const size_t limit = headers == Headers::kSlim ? kSlimClasses : kFullClasses;
  std::vector<std::pair<fs::file_time_type, fs::path>> idle;
  size_t count = 0;
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(dir_, error)) {
    const std::string name = folder.path().filename().string();
    if (name.rfind(to_string(headers), 0) != 0 || !folder.is_directory(error)) continue;
    ++count;
    const auto it = entries_.find(name);
    if (it == entries_.end() || !(it->second.ready || it->second.making))
      idle.emplace_back(folder.last_write_time(error), folder.path());
  }
  std::sort(idle.begin(), idle.end());
  for (size_t i = 0; i < idle.size() && count >= limit; ++i, --count) fs::remove_all(idle[i].second, error);
  return count < limit;
}

Status Precompiled::make(Headers headers, const Flags& flags, const fs::path& folder) {
  KZ_TRY(make_dirs(dir_));
  // Another daemon on this state folder may be making the same one.
  Fd lock(::open((folder.string() + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (lock) ::flock(lock.get(), LOCK_EX);
  if (complete(folder)) return {};
  KZ_ASSIGN(const TempDir work, TempDir::make(dir_, ".make-"));
  const fs::path header = work.path() / kHeader;
  const bool plugin = fs::exists(kit_.precompile_plugin());
  const std::string include = "#include <torch/extension.h>\n";
  KZ_TRY(write_file_atomic(header, include + (plugin ? "#pragma kz instantiate\n" : "")));

  const Stopwatch watch;
  if (headers == Headers::kFull)
    log::info("real torch headers: precompiling them in the background (once a class of flags, about 80 CPU-seconds)");
  // A full one is background work: it takes what nobody else wants.
  std::vector<std::string> command;
  if (headers == Headers::kFull) command = {"/usr/bin/nice", "-n", "19"};
  command.push_back(compiler_);
  for (const std::string& flag : unit_flags(headers, Places::on_host(kit_, dir_))) command.push_back(flag);
  for (const std::string& flag : class_flags(flags, kit_)) command.push_back(flag);
  const std::string output = header.string() + ".gch";
  for (const std::string& part :
       {std::string("-w"), std::string("-x"), std::string("c++-header"), header.string(), std::string("-o"), output})
    command.push_back(part);
  std::vector<std::string> with_plugin = command;
  if (plugin) with_plugin.insert(with_plugin.end() - 5, "-fplugin=" + kit_.precompile_plugin().string());
  const fs::path log = work.path() / "log";
  auto made = run(with_plugin, log);
  if (!made && plugin) made = run(command, log);  // a g++ that does not load the plug-in
  if (!made)
    return fail("toolchain", made.error().message + ": " + read_file(log, 1 << 16).value_or("").substr(0, 2000));
  // Read by uids that have no part in this folder's owner.
  fs::permissions(work.path(), fs::perms(0755));
  fs::permissions(output, fs::perms(0644));
  fs::permissions(header, fs::perms(0644));
  std::error_code error;
  fs::rename(work.path(), folder, error);
  if (error) return fail("io", folder.string() + ": " + error.message());
  log::debug("precompiled " + folder.filename().string() + " in " + std::to_string(watch.seconds()) + " s");
  return {};
}

Status Precompiled::run(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<std::string> arguments = command;
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  int error = ECANCELED;
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) error = ::posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
    if (error == 0) running_.insert(pid);
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return fail("process", command.front() + ": " + errno_text(error));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  std::lock_guard lock(mutex_);
  running_.erase(pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fail("process", command.front() + (WIFSIGNALED(status) ? " was killed" : " failed"));
}

Json Precompiled::statistics() const {
  std::lock_guard lock(mutex_);
  Json classes = Json::object();
  for (const auto& [name, entry] : entries_)
    classes[name] = entry.ready ? "ready" : entry.making ? "making" : entry.error.empty() ? "absent" : "failed";
  return classes;
}

}  // namespace kz::keck
