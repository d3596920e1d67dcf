#include "keck/job/queue.h"

namespace kz::keck {

void FairQueue::push(uint64_t work, const std::string& client, int priority) {
  auto [line, is_new] = lines_.try_emplace(client);
  // A client that comes (back) goes behind those that already wait: leaving the queue gains nothing.
  if (is_new) line->second.turn = ++turns_;
  const std::pair<int, uint64_t> order{-priority, ++arrivals_};
  line->second.works.emplace(order, work);
  places_.insert_or_assign(work, Place{client, order});
}

std::optional<uint64_t> FairQueue::pop() {
  auto next = lines_.begin();
  for (auto line = lines_.begin(); line != lines_.end(); ++line)
    if (line->second.turn < next->second.turn) next = line;
  if (next == lines_.end()) return std::nullopt;
  const auto [order, work] = *next->second.works.begin();
  next->second.turn = ++turns_;
  drop(next, order);
  places_.erase(work);
  return work;
}

bool FairQueue::remove(uint64_t work) {
  const auto place = places_.find(work);
  if (place == places_.end()) return false;
  drop(lines_.find(place->second.client), place->second.order);
  places_.erase(place);
  return true;
}

void FairQueue::drop(std::map<std::string, Line>::iterator line, const std::pair<int, uint64_t>& order) {
  line->second.works.erase(order);
  if (line->second.works.empty()) lines_.erase(line);
}

}  // namespace kz::keck
