// Long-polls: handlers that wait for a topic (a job, a batch) to be announced. All waiting and waking happens on one
// thread, the reactor's; only announce may be called from others.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace kz::keck {

// The thread that handlers run on.
class Reactor {
 public:
  virtual ~Reactor() = default;
  virtual void post(std::function<void()> work) = 0;  // from any thread
  virtual uint64_t after(double seconds, std::function<void()> work) = 0;
  virtual void forget(uint64_t timer) = 0;
};

class Waiting {
 public:
  explicit Waiting(Reactor& reactor) : reactor_(reactor) {}

  // co_await waiting.wait(topic, s): goes on when the topic is announced or after s seconds. Look at the state before
  // and after: an announcement that was made before the wait is not seen, one that comes between look and wait is,
  // because both run on the reactor's thread.
  auto wait(std::string topic, double seconds) {
    struct Awaiter {
      Waiting& waiting;
      std::string topic;
      double seconds;
      bool await_ready() const { return seconds <= 0 || waiting.closed_; }
      void await_suspend(std::coroutine_handle<> handle) { waiting.add(std::move(topic), seconds, handle); }
      void await_resume() const {}
    };
    return Awaiter{*this, std::move(topic), seconds};
  }

  void announce(const std::string& topic);  // from any thread
  void close();                             // wakes all, and lets nobody wait any more: waits end at once
  bool closed() const { return closed_; }
  size_t size() const { return waiters_.size(); }

 private:
  struct Waiter {
    std::coroutine_handle<> handle;
    uint64_t timer = 0, number = 0;
  };
  void add(std::string topic, double seconds, std::coroutine_handle<> handle);
  void wake(const std::string& topic, uint64_t number);  // 0: all of the topic

  Reactor& reactor_;
  std::multimap<std::string, Waiter> waiters_;
  uint64_t numbers_ = 0;
  std::atomic<bool> closed_{false};
};

}  // namespace kz::keck
