#include "keck/build/precompiled.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

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

constexpr double kSlimSeconds = 600;  // patience with a slim one: it is made at once, unless the host is stuck
constexpr const char* kSetpriv = "/usr/bin/setpriv";

bool complete(const fs::path& folder) { return fs::exists(folder / (std::string(kHeader) + ".gch")); }

Fd open_lock(const fs::path& file) { return Fd(::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)); }

bool unfinished(const std::string& name) { return name.rfind(".make-", 0) == 0 || name.rfind(".old-", 0) == 0; }

}  // namespace

Precompiled::Precompiled(const Kit& kit, fs::path dir, std::string compiler)
    : kit_(kit), dir_(std::move(dir)), compiler_(std::move(compiler)) {
  sweep();
}

Precompiled::~Precompiled() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const pid_t group : running_) ::kill(-group, SIGKILL);
  }
  for (std::thread& thread : makers_) thread.join();
}

bool Precompiled::stopping() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

// Removes what makers that are dead left.
void Precompiled::sweep() {
  const Fd birth = open_lock(dir_ / "birth.lock");  // held while a folder has no owner yet
  if (!birth) return;
  ::flock(birth.get(), LOCK_EX);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir_, error)) {
    if (!unfinished(entry.path().filename().string())) continue;
    const Fd owner = open_lock(entry.path() / "owner");
    if (owner && ::flock(owner.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code removed;
    fs::remove_all(entry.path(), removed);
    log::info("removed " + entry.path().string() + ", left by a build server that was killed");
  }
}

std::string Precompiled::class_of(Headers headers, const Flags& flags) const {
  std::vector<std::string> key = class_flags(flags, kit_);
  std::sort(key.begin(), key.end());
  const std::string hash =
      sha256_hex((headers == Headers::kSlim ? kit_.slim_key : "") + "\n" + compiler_ + "\n" + join(key, "\n"));
  return std::string(to_string(headers)) + "-" + hash.substr(0, 16);
}

Result<fs::path> Precompiled::slim(const Flags& flags) { return get(Headers::kSlim, flags, kSlimSeconds); }

Result<fs::path> Precompiled::full(const Flags& flags, double wait_seconds) {
  return get(Headers::kFull, flags, wait_seconds);
}

Result<fs::path> Precompiled::get(Headers headers, const Flags& flags, double wait_seconds) {
  const std::string name = class_of(headers, flags);
  fs::path folder = dir_ / name;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait_seconds);
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[name];
  if (entry.ready && complete(folder)) return folder;
  entry.ready = false;  // removed by hand, or not there yet
  if (!entry.error.empty()) return fail("toolchain", entry.error);
  if (stopping_) return fail("busy", "the build server is stopping");
  if (!entry.making) {
    entry.making = true;
    entry.use.reset();
    makers_.emplace_back([this, headers, flags, name] { start_making(headers, flags, name); });
  }
  const bool done = made_.wait_until(lock, deadline, [&] { return !entry.making; });
  if (!done) return fail("busy", "a precompiled header (" + name + ") is still being made");
  if (entry.ready) return folder;
  return fail(stopping_ ? "busy" : "toolchain", entry.error);
}

void Precompiled::start_making(Headers headers, const Flags& flags, const std::string& name) {
  auto use = obtain(headers, flags, dir_ / name);
  std::lock_guard guard(mutex_);
  Entry& done = entries_[name];
  done.making = false;
  done.ready = use.has_value();
  if (use) {
    done.use = std::move(*use);
  } else if (!stopping_) {
    done.error = use.error().message;
    log::warn("precompiled headers (" + name + "): " + done.error);
  }
  made_.notify_all();
}

Result<Fd> Precompiled::obtain(Headers headers, const Flags& flags, const fs::path& folder) {
  const auto take = [this](const Fd& lock, int how) {
    while (::flock(lock.get(), how | LOCK_NB) != 0) {
      if (stopping()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  };
  // Two of the real ones at once would take 5 GB.
  Fd turn;
  for (int attempt = 0; attempt < 5; ++attempt) {
    Fd lock = open_lock(folder.string() + ".lock");
    if (!lock) return fail("io", folder.string() + ".lock: " + errno_text(errno));
    if (!take(lock, LOCK_SH)) return fail("busy", "stopping");
    if (complete(folder)) {
      std::error_code error;
      fs::last_write_time(folder, fs::file_time_type::clock::now(), error);  // a use, for make_room
      return lock;
    }
    if (headers == Headers::kFull && !turn) {
      turn = open_lock(dir_ / "full.turn");
      if (!turn || !take(turn, LOCK_EX)) return fail("busy", "stopping");
    }
    if (!take(lock, LOCK_EX)) return fail("busy", "stopping");
    if (!complete(folder)) {
      KZ_TRY(make_room(headers));
      KZ_TRY(make(headers, flags, folder));
    }
    // Changing the lock lets go of it for a moment: look again.
  }
  return fail("toolchain", folder.string() + " vanishes as often as it is made");
}

// Removes the longest unused until one more fits; those that anyone uses stay.
Status Precompiled::make_room(Headers headers) {
  const size_t limit = headers == Headers::kSlim ? kSlimClasses : kFullClasses;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(dir_, error)) {
    if (folder.path().filename().string().rfind(to_string(headers), 0) == 0 && folder.is_directory(error))
      found.emplace_back(folder.last_write_time(error), folder.path());
  }
  std::sort(found.begin(), found.end());
  size_t count = found.size();
  for (size_t i = 0; i < found.size() && count >= limit; ++i) {
    const Fd lock = open_lock(found[i].second.string() + ".lock");
    if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    // At once, and then at leisure.
    const fs::path old = dir_ / (".old-" + found[i].second.filename().string());
    fs::rename(found[i].second, old, error);
    if (error) continue;
    fs::remove_all(old, error);
    --count;
  }
  if (count < limit) return {};
  return fail("toolchain", "as many precompiled headers as are kept");
}

Status Precompiled::make(Headers headers, const Flags& flags, const fs::path& folder) {
  Fd birth = open_lock(dir_ / "birth.lock");
  if (birth) ::flock(birth.get(), LOCK_EX);
  KZ_ASSIGN(const TempDir work, TempDir::make(dir_, ".make-"));
  const Fd owner = open_lock(work.path() / "owner");
  if (owner) ::flock(owner.get(), LOCK_EX);
  birth.reset();
  const fs::path header = work.path() / kHeader;
  const bool plugin = fs::exists(kit_.precompile_plugin());
  const std::string include = "#include <torch/extension.h>\n";
  KZ_TRY(write_file_atomic(header, include + (plugin ? "#pragma kz instantiate\n" : "")));

  const Stopwatch watch;
  if (headers == Headers::kFull)
    log::info("real torch headers: precompiling them (once a class of flags, about 100 CPU-seconds)");
  // Both the driver and the compiler that it starts die with whoever started them, also when we are killed.
  std::vector<std::string> command;
  const bool mortal = fs::exists(kSetpriv);
  if (mortal) command = {kSetpriv, "--pdeathsig", "KILL"};
  command.push_back(compiler_);
  if (mortal) command.insert(command.end(), {"-wrapper", std::string(kSetpriv) + ",--pdeathsig,KILL"});
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
  fs::remove(work.path() / "owner", error);
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
