// The order in which works run: clients take turns, so that one with ten thousand jobs does not starve one with two;
// within a client higher priority first, then first come first served. Not thread-safe: Jobs holds the lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace kz::keck {

class FairQueue {
 public:
  void push(uint64_t work, const std::string& client, int priority);
  // The next work of the client that was served longest ago; nothing when empty.
  std::optional<uint64_t> pop();
  bool remove(uint64_t work);
  size_t size() const { return places_.size(); }
  size_t clients() const { return lines_.size(); }

 private:
  struct Place {
    std::string client;
    std::pair<int, uint64_t> order;  // (-priority, arrival)
  };
  struct Line {
    std::map<std::pair<int, uint64_t>, uint64_t> works;
    uint64_t turn = 0;  // the line with the lowest turn is served next
  };
  void drop(std::map<std::string, Line>::iterator line, const std::pair<int, uint64_t>& order);

  std::map<std::string, Line> lines_;  // only clients that have something waiting
  std::map<uint64_t, Place> places_;
  uint64_t arrivals_ = 0, turns_ = 0;
};

}  // namespace kz::keck
