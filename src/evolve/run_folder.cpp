#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "evolve/run.h"

namespace kz::evolve {
namespace {

// One process at a time: the lock goes with the process, however it ends.
Result<Fd> lock_folder(const fs::path& folder) {
  Fd fd(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd)
    return fail("io",
                (folder / "lock").string() + ": " + errno_text(errno) + ": check the folder's permissions and disk");
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail("busy", folder.string() + ": another process works on this run: wait for it or stop it");
  }
  return fd;
}

}  // namespace

Place place_of(int64_t step, const EvolveOptions& o) {
  const int64_t a_round = o.proposer_steps + o.coder_steps;
  Place p;
  p.round = static_cast<int>(step / a_round);
  const auto within = static_cast<int>(step % a_round);
  p.role = within < o.proposer_steps ? Role::kProposer : Role::kCoder;
  p.index = p.role == Role::kProposer ? within : within - o.proposer_steps;
  p.ordinal = static_cast<int64_t>(p.round) * (p.role == Role::kProposer ? o.proposer_steps : o.coder_steps) + p.index;
  return p;
}

RunFolder::RunFolder(fs::path path, Store store, Fd lock)
    : path_(std::move(path)), store_(std::make_unique<Store>(std::move(store))), lock_(std::move(lock)) {}

Result<RunFolder> RunFolder::create(const fs::path& folder, const EvolveOptions& options,
                                    const std::string& resolved_toml) {
  if (fs::exists(folder / "run.db")) {
    return fail("exists", folder.string() + " holds a run already: go on with --resume " + folder.string() +
                              ", or choose another name with --set name=…");
  }
  KZ_TRY(make_dirs(folder / "checkpoints"));
  KZ_ASSIGN(Fd lock, lock_folder(folder));
  KZ_TRY(write_file_atomic(folder / "config.toml", resolved_toml));
  KZ_ASSIGN(Store store, Store::create(folder / "run.db", {{"seed", std::to_string(options.seed)},
                                                           {"backend", options.keck.backend},
                                                           {"estimator", options.train.estimator},
                                                           {"name", options.name},
                                                           {"config", resolved_toml}}));
  return RunFolder(folder, std::move(store), std::move(lock));
}

Result<RunFolder> RunFolder::open(const fs::path& folder) {
  if (!fs::exists(folder / "run.db")) return fail("io", folder.string() + " is no run folder: it has no run.db");
  KZ_ASSIGN(Fd lock, lock_folder(folder));
  KZ_ASSIGN(Store store, Store::open(folder / "run.db"));
  return RunFolder(folder, std::move(store), std::move(lock));
}

Status RunFolder::keep_checkpoints(const std::vector<std::string>& names) const {
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(path_ / "checkpoints", ec)) {
    const std::string name = entry.path().filename().string();
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::error_code ignored;
    fs::remove_all(entry.path(), ignored);
  }
  return {};
}

}  // namespace kz::evolve
