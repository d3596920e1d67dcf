#include "rl/ca_grpo.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kz::rl {
namespace {

// sigmoid(-1) and sigmoid(+1): two speedups, as often the one as the other, have z-scores -1 and +1.
constexpr double kLow = 0.268941421, kHigh = 0.731058579;

Outcome right(double speedup, double low = kNoTiming, double high = kNoTiming) {
  return {true, true, speedup, low, high};
}
Outcome wrong() { return {true, false}; }
Outcome unscored() { return {false, false}; }

struct Row {
  const char* what;
  std::vector<Outcome> group;
  double accuracy;
  bool gate;
  std::vector<double> reward;
};

TEST(CaGrpo, TableByHand) {
  const CaGrpoOptions options{.alpha = 0.5, .beta = 0.1, .noise = 0.05};
  const double lo = 1 + 0.1 * kLow, hi = 1 + 0.1 * kHigh;
  const std::vector<Row> rows = {
      {"8 of 8",
       {right(1), right(2), right(1), right(2), right(1), right(2), right(1), right(2)},
       1.0,
       true,
       {lo, hi, lo, hi, lo, hi, lo, hi}},
      {"all wrong", {wrong(), wrong(), wrong(), wrong()}, 0.0, false, {0, 0, 0, 0}},
      {"all right, equally fast", {right(1.5), right(1.5), right(1.5)}, 1.0, true, {1, 1, 1}},
      {"below alpha: right ones get no bonus",
       {right(1), right(4), wrong(), wrong(), wrong()},
       0.4,
       false,
       {1, 1, 0, 0, 0}},
      {"exactly alpha opens the gate", {right(1), right(2), wrong(), wrong()}, 0.5, true, {lo, hi, 0, 0}},
      {"unscored members neither close nor open the gate",
       {right(1), right(2), wrong(), unscored(), unscored(), unscored()},
       2.0 / 3,
       true,
       {lo, hi, 0, 0, 0, 0}},
      {"all unscored", {unscored(), unscored()}, 0.0, false, {0, 0}},
      {"one right: nothing to compare with", {right(9), wrong()}, 0.5, true, {1, 0}},
      {"NaN speedup: right, not timed, no part in the z-score",
       {right(1), right(2), right(kNoTiming)},
       1.0,
       true,
       {lo, hi, 1}},
      {"infinite, zero and negative speedups are no times",
       {right(1), right(2), right(INFINITY), right(0), right(-3)},
       1.0,
       true,
       {lo, hi, 1, 1, 1}},
      {"a wrong kernel's time is not looked at",
       {right(1), right(2), Outcome{true, false, 100.0}},
       2.0 / 3,
       true,
       {lo, hi, 0}},
      {"spread within the noise ratio", {right(1.00), right(1.04)}, 1.0, true, {1, 1}},
      {"overlapping intervals are noise", {right(1.0, 0.8, 1.3), right(1.4, 1.2, 1.6)}, 1.0, true, {1, 1}},
      {"apart intervals are not", {right(1.0, 0.9, 1.1), right(2.0, 1.8, 2.2)}, 1.0, true, {lo, hi}},
      {"empty group", {}, 0.0, false, {}},
  };
  for (const auto& row : rows) {
    const GroupReward got = ca_grpo(row.group, options);
    EXPECT_NEAR(got.accuracy, row.accuracy, 1e-12) << row.what;
    EXPECT_EQ(got.gate, row.gate) << row.what;
    ASSERT_EQ(got.members.size(), row.reward.size()) << row.what;
    bool bonus = false;
    for (size_t i = 0; i < row.reward.size(); ++i) {
      EXPECT_NEAR(got.members[i].reward(), row.reward[i], 1e-8) << row.what << ", member " << i;
      EXPECT_EQ(got.members[i].scored, row.group[i].scored) << row.what << ", member " << i;
      bonus |= got.members[i].bonus > 0;
    }
    EXPECT_EQ(got.with_bonus, bonus) << row.what;
  }
}

TEST(CaGrpo, ZeroBetaPaysNoBonus) {
  const GroupReward got = ca_grpo({right(1), right(2)}, {.alpha = 0.5, .beta = 0.0});
  EXPECT_TRUE(got.gate);
  EXPECT_FALSE(got.with_bonus);
  EXPECT_EQ(got.members[0].reward(), 1.0);
  EXPECT_EQ(got.members[1].reward(), 1.0);
}

}  // namespace
}  // namespace kz::rl
