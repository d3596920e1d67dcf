// The pool of judge processes: as many as checks that may run at once. A judge that died is replaced. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "keck/judge/judge.h"

namespace kz::keck {

class Judges {
 public:
  // Error "judge": one did not start.
  static Result<std::unique_ptr<Judges>> start(const Layout& layout, int n);

  // A judge for one job; goes back to the pool with its lease. Error "cancelled", or "judge" when no new one starts.
  using Lease = std::unique_ptr<Judge, std::function<void(Judge*)>>;
  Result<Lease> take(const std::atomic<bool>& cancelled);

  uint64_t replaced() const;

 private:
  explicit Judges(Layout layout) : layout_(std::move(layout)), audits_(make_task_audits()) {}
  void give_back(Judge* judge);

  Layout layout_;
  std::shared_ptr<TaskAudits> audits_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Judge>> idle_;
  int missing_ = 0;  // judges that died: whoever needs one starts it
  uint64_t replaced_ = 0;
};

}  // namespace kz::keck
