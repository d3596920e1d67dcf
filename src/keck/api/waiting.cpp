#include "keck/api/waiting.h"

#include <vector>

namespace kz::keck {

void Waiting::add(std::string topic, double seconds, std::coroutine_handle<> handle) {
  const uint64_t number = ++numbers_;
  const uint64_t timer = reactor_.after(seconds, [this, topic, number] { wake(topic, number); });
  waiters_.emplace(std::move(topic), Waiter{handle, timer, number});
}

void Waiting::wake(const std::string& topic, uint64_t number) {
  // Collected first: a handler that goes on may wait for the same topic again.
  std::vector<Waiter> woken;
  const auto [begin, end] = waiters_.equal_range(topic);
  for (auto waiter = begin; waiter != end;) {
    if (number != 0 && waiter->second.number != number) {
      ++waiter;
      continue;
    }
    woken.push_back(waiter->second);
    waiter = waiters_.erase(waiter);
  }
  for (const auto& waiter : woken) {
    if (number == 0) reactor_.forget(waiter.timer);
    waiter.handle.resume();
  }
}

void Waiting::announce(const std::string& topic) {
  if (closed_) return;  // the reactor may be gone
  reactor_.post([this, topic] { wake(topic, 0); });
}

void Waiting::close() {
  closed_ = true;
  while (!waiters_.empty()) wake(std::string(waiters_.begin()->first), 0);
}

}  // namespace kz::keck
