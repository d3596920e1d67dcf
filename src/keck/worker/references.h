// Warm reference children: one or a few a task, kept for the task's next candidates (keck.md, part 2). Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "keck/worker/child.h"

namespace kz::keck {

// Names a task: modules of equal text share references, audits and defects.
std::string task_key(const std::string& module);

// Why a module can't be a task: its own fault, known for good.
struct TaskDefect {
  std::string reason, message;
};

class References {
 public:
  using Start = std::function<Result<std::unique_ptr<Child>>()>;
  References(Start start, size_t max_idle) : start_(std::move(start)), max_idle_(max_idle) {}

  // A loaded child of this module, used by one candidate at a time. Returned by give_back().
  struct Lease {
    std::unique_ptr<Child> child;
    std::optional<TaskDefect> defect;  // then there is no child
  };
  // Errors: "host" "zygote" (ours), "cancelled".
  Result<Lease> take(const std::string& key, const std::string& module, double timeout_s,
                     const std::atomic<bool>& cancelled);
  // Whether the module can be a task at all: a defect makes every candidate of it unscored, also one that would not
  // compile. Loads it, once a module, and keeps the child warm. Errors as of take().
  Result<std::optional<TaskDefect>> probe(const std::string& key, const std::string& module, double timeout_s,
                                          const std::atomic<bool>& cancelled);
  // `clean`: nothing is in flight on it; else it is killed.
  void give_back(const std::string& key, std::unique_ptr<Child> child, bool clean);
  // Forgets all idle children (the zygote that they came from is gone).
  void clear();

  size_t idle() const;

 private:
  std::optional<TaskDefect> known_defect(const std::string& key) const;
  void remember(const std::string& key, const TaskDefect& defect);

  Start start_;
  size_t max_idle_;
  mutable std::mutex mutex_;  // guards what follows
  struct Idle {
    std::string key;
    std::unique_ptr<Child> child;
  };
  std::list<Idle> idle_;  // the latest used in front
  std::map<std::string, TaskDefect> defects_;
  std::set<std::string> sound_;  // modules that have loaded
};

}  // namespace kz::keck
