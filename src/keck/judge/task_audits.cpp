#include "keck/judge/task_audits.h"

namespace kz::keck {

std::optional<TaskAudit> TaskAudits::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = index_.find(key);
  if (it == index_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->second;
}

void TaskAudits::put(const std::string& key, TaskAudit audit) {
  const std::lock_guard lock(mutex_);
  if (const auto it = index_.find(key); it != index_.end()) {
    it->second->second = std::move(audit);
    entries_.splice(entries_.begin(), entries_, it->second);
    return;
  }
  entries_.emplace_front(key, std::move(audit));
  index_[key] = entries_.begin();
  if (entries_.size() > capacity_) {
    index_.erase(entries_.back().first);
    entries_.pop_back();
  }
}

std::shared_ptr<TaskAudits> make_task_audits(size_t capacity) { return std::make_shared<TaskAudits>(capacity); }

}  // namespace kz::keck
