#include "rl/group_stats.h"

#include <gtest/gtest.h>

#include "rl/advantage.h"

namespace kz::rl {
namespace {

TEST(GroupStats, CountsEachKindOfGroup) {
  const Outcome fast{true, true, 2.0}, slow{true, true, 1.0}, wrong{true, false}, unscored{false, false};
  const std::vector<std::vector<Outcome>> groups = {
      {fast, slow, fast, slow},        // all right, with a bonus
      {wrong, wrong, wrong, wrong},    // all wrong: no gradient
      {slow, wrong, unscored, wrong},  // mixed, below alpha
      {slow, slow, slow, unscored},    // all right, no spread: no gradient
      {unscored, unscored, unscored, unscored},
  };
  GroupStats stats;
  for (const auto& group : groups) {
    const GroupReward reward = ca_grpo(group, {.alpha = 0.5, .beta = 0.1});
    stats.add(reward, advantages(reward.members, {.estimator = Estimator::kRloo}));
  }
  EXPECT_EQ(stats.groups, 5);
  EXPECT_EQ(stats.members, 20);
  EXPECT_EQ(stats.unscored, 6);
  EXPECT_EQ(stats.all_right, 2);
  EXPECT_EQ(stats.all_wrong, 1);
  EXPECT_EQ(stats.mixed, 1);
  EXPECT_EQ(stats.zero_advantage, 3);
  EXPECT_EQ(stats.gated_on, 2);
  EXPECT_EQ(stats.with_bonus, 1);
  EXPECT_NEAR(stats.accuracy, 8.0 / 14, 1e-12);
  EXPECT_NEAR(stats.reward_mean, (8 + 0.1 * 2) / 14, 1e-9);  // sigmoid(-1) + sigmoid(1) = 1, twice
}

}  // namespace
}  // namespace kz::rl
