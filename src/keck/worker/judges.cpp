#include "keck/worker/judges.h"

#include <sys/wait.h>

namespace kz::keck {
namespace {

// Looks without reaping: the handle does that.
bool runs(const Judge& judge) {
  siginfo_t info{};
  return judge.alive() && waitid(P_PID, static_cast<id_t>(judge.pid()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

}  // namespace

Result<std::unique_ptr<Judges>> Judges::start(const Layout& layout, int n) {
  auto judges = std::unique_ptr<Judges>(new Judges(layout));
  for (int i = 0; i < n; ++i) {
    KZ_ASSIGN(auto judge, Judge::start(layout, {.audits = judges->audits_}));
    judges->idle_.push_back(std::move(judge));
  }
  return judges;
}

Result<Judges::Lease> Judges::take(const std::atomic<bool>& cancelled) {
  const auto back = [this](Judge* judge) { give_back(judge); };
  std::unique_lock lock(mutex_);
  while (idle_.empty() && missing_ == 0) {
    if (cancelled) return fail("cancelled", "cancelled");
    changed_.wait_for(lock, std::chrono::milliseconds(50));
  }
  for (auto it = idle_.begin(); it != idle_.end();) {
    if (runs(**it)) {
      ++it;
    } else {  // died at rest
      it = idle_.erase(it);
      ++missing_;
    }
  }
  if (!idle_.empty()) {
    Judge* judge = idle_.back().release();
    idle_.pop_back();
    return Lease(judge, back);
  }
  --missing_;
  lock.unlock();
  auto fresh = Judge::start(layout_, {.audits = audits_});
  lock.lock();
  if (!fresh) {
    ++missing_;
    return tl::unexpected(fresh.error());
  }
  ++replaced_;
  return Lease(fresh->release(), back);
}

void Judges::give_back(Judge* judge) {
  std::unique_ptr<Judge> owned(judge);
  const bool alive = owned->alive();
  std::lock_guard lock(mutex_);
  if (alive)
    idle_.push_back(std::move(owned));
  else
    ++missing_;
  changed_.notify_one();
}

uint64_t Judges::replaced() const {
  std::lock_guard lock(mutex_);
  return replaced_;
}

}  // namespace kz::keck
