#include "rl/advantage.h"

#include <gtest/gtest.h>

namespace kz::rl {
namespace {

Pay pay(double base, double bonus = 0) { return {true, base, bonus}; }
Pay unscored() { return {false, 0, 0}; }

struct Row {
  const char* what;
  std::vector<Pay> group;
  Estimator estimator;
  std::vector<double> advantage;
};

// Two of four right, no bonus: mean 1/2, standard deviation 1/2. Eight of eight right with bonuses .027 and .073
// (z-scores of -1 and +1 at beta .1): mean 1.05, deviations .0231.
TEST(Advantage, TableByHand) {
  const std::vector<Pay> half = {pay(1), pay(0), pay(1), pay(0)};
  const double a = 0.0268941421, b = 0.0731058579, d = 0.0231058579;
  const std::vector<Pay> eight = {pay(1, a), pay(1, b), pay(1, a), pay(1, b),
                                  pay(1, a), pay(1, b), pay(1, a), pay(1, b)};
  const auto alternate = [](double x) { return std::vector<double>{-x, x, -x, x, -x, x, -x, x}; };
  const std::vector<Row> rows = {
      {"half, grpo", half, Estimator::kGrpo, {1, -1, 1, -1}},
      {"half, grpo_floor", half, Estimator::kGrpoFloor, {1, -1, 1, -1}},
      {"half, dr_grpo", half, Estimator::kDrGrpo, {.5, -.5, .5, -.5}},
      {"half, rloo", half, Estimator::kRloo, {2. / 3, -2. / 3, 2. / 3, -2. / 3}},
      {"half, decoupled", half, Estimator::kDecoupled, {1, -1, 1, -1}},
      {"8 of 8, grpo: timing alone gives full-size advantages", eight, Estimator::kGrpo, alternate(1.0)},
      {"8 of 8, grpo_floor", eight, Estimator::kGrpoFloor, alternate(d / 0.1)},
      {"8 of 8, dr_grpo", eight, Estimator::kDrGrpo, alternate(d)},
      {"8 of 8, rloo", eight, Estimator::kRloo, alternate(d * 8 / 7)},
      {"8 of 8, decoupled", eight, Estimator::kDecoupled, alternate(d)},
      {"decoupled: bonus compared among the right only",
       {pay(1, a), pay(1, b), pay(0), pay(0)},
       Estimator::kDecoupled,
       {1 - d, 1 + d, -1, -1}},
      {"rloo: the others' mean is 1/3 and 2/3",
       {pay(1), pay(0), pay(0), unscored()},
       Estimator::kRloo,
       {1, -.5, -.5, 0}},
      {"unscored members leave mean and deviation",
       {pay(1), unscored(), pay(0), unscored()},
       Estimator::kGrpo,
       {1, 0, -1, 0}},
      {"all wrong", {pay(0), pay(0), pay(0)}, Estimator::kGrpo, {0, 0, 0}},
      {"all right, no bonus", {pay(1), pay(1), pay(1)}, Estimator::kRloo, {0, 0, 0}},
      {"one scored member teaches nothing", {pay(1, a), unscored(), unscored()}, Estimator::kRloo, {0, 0, 0}},
      {"none scored", {unscored(), unscored()}, Estimator::kGrpo, {0, 0}},
      {"empty", {}, Estimator::kRloo, {}},
      {"a Proposer's group with an invalid module",
       {pay(-.5), pay(1), pay(.5), pay(0)},
       Estimator::kDrGrpo,
       {-.75, .75, .25, -.25}},
  };
  for (const auto& row : rows) {
    const auto got = advantages(row.group, {.estimator = row.estimator});
    ASSERT_EQ(got.size(), row.advantage.size()) << row.what;
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], row.advantage[i], 1e-4) << row.what << ", member " << i;
  }
}

TEST(Advantage, NamesRoundTrip) {
  for (const char* name : {"grpo", "grpo_floor", "dr_grpo", "rloo", "decoupled"}) {
    const auto estimator = estimator_from(name);
    ASSERT_TRUE(estimator) << name;
    EXPECT_EQ(to_string(*estimator), name);
  }
  const auto unknown = estimator_from("ppo");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("ppo"), std::string::npos);
}

}  // namespace
}  // namespace kz::rl
