// What has been found out about tasks, kept by the daemon for all its judges.
#pragma once

#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "keck/judge/session.h"

namespace kz::keck {

// Thread-safe; the least recently used are forgotten.
class TaskAudits {
 public:
  explicit TaskAudits(size_t capacity) : capacity_(capacity) {}
  std::optional<TaskAudit> find(const std::string& key);
  void put(const std::string& key, TaskAudit audit);

 private:
  using Entry = std::pair<std::string, TaskAudit>;
  std::mutex mutex_;
  size_t capacity_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> index_;
};

}  // namespace kz::keck
