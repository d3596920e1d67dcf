#include "keck/job/queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace kz::keck {
namespace {

std::vector<uint64_t> drained(FairQueue& queue) {
  std::vector<uint64_t> order;
  while (auto work = queue.pop()) order.push_back(*work);
  return order;
}

TEST(FairQueue, ServesByPriorityThenByArrivalWithinAClient) {
  FairQueue queue;
  queue.push(1, "a", 0);
  queue.push(2, "a", 5);
  queue.push(3, "a", 0);
  queue.push(4, "a", -1);
  EXPECT_EQ(drained(queue), (std::vector<uint64_t>{2, 1, 3, 4}));
}

TEST(FairQueue, ClientsTakeTurnsWhateverTheyQueuedAndWhateverPriorityTheyClaim) {
  FairQueue queue;
  for (uint64_t i = 0; i < 5; ++i) queue.push(100 + i, "many", 10);
  queue.push(1, "few", 0);
  queue.push(2, "few", 0);
  EXPECT_EQ(drained(queue), (std::vector<uint64_t>{100, 1, 101, 2, 102, 103, 104}));
}

TEST(FairQueue, LeavingAndComingBackGainsNothing) {
  FairQueue queue;
  queue.push(1, "a", 0);
  queue.push(10, "b", 0);
  EXPECT_EQ(queue.pop(), 1u);  // a has had its turn and leaves
  queue.push(2, "a", 0);
  EXPECT_EQ(queue.pop(), 10u);
  EXPECT_EQ(queue.pop(), 2u);
}

TEST(FairQueue, RemovesFromAnyPlace) {
  FairQueue queue;
  queue.push(1, "a", 0);
  queue.push(2, "a", 0);
  queue.push(3, "b", 0);
  EXPECT_TRUE(queue.remove(1));
  EXPECT_TRUE(queue.remove(3));
  EXPECT_FALSE(queue.remove(3));
  EXPECT_EQ(queue.clients(), 1u);
  EXPECT_EQ(drained(queue), (std::vector<uint64_t>{2}));
  EXPECT_EQ(queue.size(), 0u);
}

}  // namespace
}  // namespace kz::keck
