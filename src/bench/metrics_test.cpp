#include "bench/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace kz::bench {
namespace {

TEST(PassAtK, ClosedForms) {
  EXPECT_DOUBLE_EQ(pass_at_k(8, 0, 1), 0);
  EXPECT_DOUBLE_EQ(pass_at_k(8, 8, 1), 1);
  EXPECT_NEAR(pass_at_k(8, 2, 1), 0.25, 1e-12);
  EXPECT_NEAR(pass_at_k(5, 2, 3), 0.9, 1e-12);  // 1 - C(3,3)/C(5,3) = 1 - 1/10
  EXPECT_DOUBLE_EQ(pass_at_k(10, 3, 8), 1);     // only 7 are wrong
  EXPECT_TRUE(std::isnan(pass_at_k(4, 1, 5)));
  EXPECT_TRUE(std::isnan(pass_at_k(0, 0, 1)));
}

TEST(PassAtK, EqualsCountingAllSubsets) {
  constexpr int kN = 9;
  for (int c = 0; c <= kN; ++c) {
    for (int k = 1; k <= kN; ++k) {
      int hit = 0, all = 0;
      for (unsigned set = 0; set < 1U << kN; ++set) {
        if (__builtin_popcount(set) != k) continue;
        ++all;
        hit += (set & ((1U << c) - 1)) != 0 ? 1 : 0;
      }
      EXPECT_NEAR(pass_at_k(kN, c, k), static_cast<double>(hit) / all, 1e-12) << c << " of " << kN << ", k " << k;
    }
  }
}

TEST(FastP, CountsOnlyRightAndFast) {
  const std::vector<TaskSamples> tasks = {{{true, 1.2}, {true, 0.9}}, {{false, 5}, {true, 2}}, {}};
  EXPECT_DOUBLE_EQ(fast_p_at_k(tasks, 0, 1), 0.75);
  EXPECT_DOUBLE_EQ(fast_p_at_k(tasks, 1, 1), 0.5);
  EXPECT_DOUBLE_EQ(fast_p_at_k(tasks, 1.5, 1), 0.25);
  EXPECT_DOUBLE_EQ(fast_p_at_k(tasks, 1, 2), 1);
  EXPECT_TRUE(std::isnan(fast_p_at_k({}, 0, 1)));
}

TEST(Bootstrap, IntervalOfAShiftCoversItAndNotZero) {
  Rng rng(3);
  std::vector<double> before, after;
  for (int i = 0; i < 300; ++i) {
    before.push_back(rng.uniform());
    after.push_back(before.back() + 0.1 + 0.05 * rng.normal());
  }
  const Interval gain = paired_bootstrap(before, after, 1);
  EXPECT_NEAR(gain.mean, 0.1, 0.01);
  EXPECT_LT(gain.low, gain.mean);
  EXPECT_GT(gain.low, 0.08);
  EXPECT_LT(gain.high, 0.12);
  EXPECT_NEAR(gain.high - gain.low, 2 * 1.96 * 0.05 / std::sqrt(300), 0.003);
}

TEST(Bootstrap, SameSeedSameInterval) {
  const std::vector<double> a = {0, 1, 0, 1, 1}, b = {1, 1, 0, 1, 0};
  EXPECT_EQ(paired_bootstrap(a, b, 5).low, paired_bootstrap(a, b, 5).low);
  EXPECT_TRUE(std::isnan(paired_bootstrap({}, {}, 5).mean));
}

}  // namespace
}  // namespace kz::bench
