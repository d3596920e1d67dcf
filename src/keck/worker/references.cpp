#include "keck/worker/references.h"

#include <algorithm>

#include "base/hash.h"

namespace kz::keck {
namespace {

constexpr size_t kMaxKnown = 16384;  // of defects and of sound modules

}  // namespace

std::string task_key(const std::string& module) { return sha256_hex(module); }

std::optional<TaskDefect> References::known_defect(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto it = defects_.find(key);
  return it == defects_.end() ? std::nullopt : std::optional(it->second);
}

void References::remember(const std::string& key, const TaskDefect& defect) {
  std::lock_guard lock(mutex_);
  if (defects_.size() >= kMaxKnown) defects_.clear();
  defects_[key] = defect;
}

Result<References::Lease> References::take(const std::string& key, const std::string& module, double timeout_s,
                                           const std::atomic<bool>& cancelled) {
  if (auto defect = known_defect(key)) return Lease{nullptr, defect};
  for (;;) {
    std::unique_ptr<Child> warm;
    {
      std::lock_guard lock(mutex_);
      const auto it = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& i) { return i.key == key; });
      if (it == idle_.end()) break;
      warm = std::move(it->child);
      idle_.erase(it);
    }
    if (warm->alive()) return Lease{std::move(warm), std::nullopt};
  }
  KZ_ASSIGN(std::unique_ptr<Child> child, start_());
  auto loaded = child->load({{"role", "reference"}, {"source", module}}, timeout_s, cancelled);
  if (loaded && bool_field(*loaded, "ok")) return Lease{std::move(child), std::nullopt};
  if (!loaded && (loaded.error().code == "cancelled" || loaded.error().code == "host"))
    return tl::unexpected(loaded.error());
  TaskDefect defect;
  if (loaded) {
    defect = {text_field(*loaded, "reason", "exception"), text_field(*loaded, "message")};
    remember(key, defect);
  } else if (loaded.error().code == "timeout") {
    defect = {"module_timeout", "the module " + loaded.error().message};
  } else {
    const ChildEnd& end = child->end();
    if (end.how == ChildEnd::How::kKilled || end.how == ChildEnd::How::kOrphaned) return tl::unexpected(loaded.error());
    defect = {"module_" + reason_of(end), "the module's process " + describe(end)};
  }
  return Lease{nullptr, defect};
}

Result<std::optional<TaskDefect>> References::probe(const std::string& key, const std::string& module, double timeout_s,
                                                    const std::atomic<bool>& cancelled) {
  {
    std::lock_guard lock(mutex_);
    if (sound_.contains(key)) return std::nullopt;
  }
  KZ_ASSIGN(Lease lease, take(key, module, timeout_s, cancelled));
  if (lease.defect) return lease.defect;
  give_back(key, std::move(lease.child), true);
  std::lock_guard lock(mutex_);
  if (sound_.size() >= kMaxKnown) sound_.clear();
  sound_.insert(key);
  return std::nullopt;
}

void References::give_back(const std::string& key, std::unique_ptr<Child> child, bool clean) {
  if (!child || !clean || !child->alive()) return;
  std::unique_ptr<Child> evicted;  // dies outside the lock
  std::lock_guard lock(mutex_);
  idle_.push_front({key, std::move(child)});
  if (idle_.size() > max_idle_) {
    evicted = std::move(idle_.back().child);
    idle_.pop_back();
  }
}

void References::clear() {
  std::list<Idle> old;
  {
    std::lock_guard lock(mutex_);
    old.swap(idle_);
  }
}

size_t References::idle() const {
  std::lock_guard lock(mutex_);
  return idle_.size();
}

}  // namespace kz::keck
