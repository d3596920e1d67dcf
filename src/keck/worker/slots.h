// Counted places that threads wait for, and the gate between builds and timing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace kz::keck {

// At most `n` holders. A lease gives its place back when it goes.
class Places {
 public:
  explicit Places(int n) : free_(n) {}
  using Lease = std::shared_ptr<void>;
  void resize(int n) { free_ = n; }  // before the first use
  // Waits; null when `cancelled` became true.
  Lease acquire(const std::atomic<bool>* cancelled = nullptr) {
    std::unique_lock lock(mutex_);
    while (free_ <= 0) {
      if (cancelled != nullptr && *cancelled) return nullptr;
      changed_.wait_for(lock, std::chrono::milliseconds(50));
    }
    --free_;
    return Lease(this, [](void* p) { static_cast<Places*>(p)->release(); });
  }

 private:
  void release() {
    std::lock_guard lock(mutex_);
    ++free_;
    changed_.notify_one();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_;
};

// One measurement at a time; while it lasts no compiler is started (keck.md, part 6). Those running finish.
class TimingGate {
 public:
  std::shared_ptr<void> lease() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !timing_; });
    timing_ = true;
    return {this, [](void* p) { static_cast<TimingGate*>(p)->release(); }};
  }
  void wait_quiet() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !timing_; });
  }

 private:
  void release() {
    std::lock_guard lock(mutex_);
    timing_ = false;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool timing_ = false;
};

}  // namespace kz::keck
