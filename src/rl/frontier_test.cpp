#include "rl/frontier.h"

#include <gtest/gtest.h>

namespace kz::rl {
namespace {

struct Row {
  const char* what;
  bool valid;
  FrontierCounts counts;
  std::optional<double> reward;
};

TEST(Frontier, TableByHand) {
  const FrontierOptions options{.rho = -0.5, .min_scored_share = 0.75};
  const Row rows[] = {
      {"half right pays most", true, {8, 8, 4}, 1.0},
      {"a quarter right", true, {8, 8, 2}, 0.5},
      {"three quarters right", true, {8, 8, 6}, 0.5},
      {"one of eight", true, {8, 8, 1}, 0.25},
      {"all right pays nothing", true, {8, 8, 8}, 0.0},
      {"all wrong pays nothing", true, {8, 8, 0}, 0.0},
      {"unscored leave the mean: 3 of 6", true, {8, 6, 3}, 1.0},
      {"5 of 8 scored: no reward", true, {8, 5, 3}, std::nullopt},
      {"none scored: no reward", true, {8, 0, 0}, std::nullopt},
      {"no rollouts: no reward", true, {0, 0, 0}, std::nullopt},
      {"3 of 4 scored is three quarters", true, {4, 3, 1}, 1.0 - 2.0 * (0.5 - 1.0 / 3.0)},
      {"2 of 4 scored: no reward", true, {4, 2, 1}, std::nullopt},
      {"invalid pays rho whatever was scored", false, {8, 8, 4}, -0.5},
      {"invalid pays rho with nothing scored", false, {0, 0, 0}, -0.5},
  };
  for (const auto& row : rows) {
    const auto got = frontier_reward(row.valid, row.counts, options);
    ASSERT_EQ(got.has_value(), row.reward.has_value()) << row.what;
    if (got) {
      EXPECT_NEAR(*got, *row.reward, 1e-12) << row.what;
    }
  }
}

}  // namespace
}  // namespace kz::rl
