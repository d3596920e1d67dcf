#include "keck/judge/statistics.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "base/random.h"

namespace kz::keck {
namespace {

std::vector<PairReading> pairs(int n, double reference, double candidate, double scatter, uint64_t seed) {
  Rng rng(seed);
  std::vector<PairReading> out;
  for (int i = 0; i < n; ++i) {
    out.push_back({reference * std::exp(scatter * rng.normal()), candidate * std::exp(scatter * rng.normal())});
  }
  return out;
}

TEST(Statistics, Decisions) {
  const struct {
    double reference, candidate, scatter, floor;
    Decision decision;
  } table[] = {
      {100e-6, 50e-6, 0.02, 1e-6, Decision::kFaster},    {100e-6, 200e-6, 0.02, 1e-6, Decision::kSlower},
      {1e-3, 1e-3, 0.01, 1e-6, Decision::kSame},         {1e-3, 1e-3, 0.5, 1e-6, Decision::kAmbiguous},
      {3e-6, 2e-6, 0.01, 1e-6, Decision::kAmbiguous},  // inside what the method resolves
      {100e-6, 93e-6, 0.01, 5e-6, Decision::kAmbiguous},
  };
  for (const auto& row : table) {
    const SpeedupEstimate e =
        estimate_speedup(pairs(24, row.reference, row.candidate, row.scatter, 1), {row.floor, 0}, 0.05);
    EXPECT_EQ(e.decision, row.decision) << row.reference << " " << row.candidate << " [" << e.low << ", " << e.high
                                        << "]";
  }
}

TEST(Statistics, SpreadOfNothingIsNothing) {
  EXPECT_EQ(spread({}).n, 0);
  EXPECT_EQ(spread({NAN, INFINITY}).n, 0);
  const Spread s = spread({4, 1, 2, 3, NAN});
  EXPECT_EQ(s.n, 4);
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.iqr, 1.5);
}

// Zeros, negatives, NaN and infinities never reach a ratio (P23).
RC_GTEST_PROP(Statistics, NeverCollapses, (uint64_t seed)) {
  Rng rng(seed);
  const double odd[] = {0, -1, NAN, INFINITY, -INFINITY, 1e-300, 1e300, 1e-5, 1e-4};
  std::vector<PairReading> b(rng.below(30));
  for (PairReading& block : b) block = {odd[rng.below(9)], odd[rng.below(9)]};
  const SpeedupEstimate e = estimate_speedup(b, {1e-6, odd[rng.below(9)]}, 0.05);
  RC_ASSERT(std::isfinite(e.speedup) && std::isfinite(e.low) && std::isfinite(e.high));
  RC_ASSERT(e.low <= e.speedup && e.speedup <= e.high);
  RC_ASSERT((e.speedup > 0) == !b.empty());
}

// A constant that is not known well moves both sides alike: equal sides stay equal, unequal ones become less sure.
TEST(Statistics, ACommonShiftHardlyMovesEqualSides) {
  const auto width = [](double candidate, double common) {
    const SpeedupEstimate e = estimate_speedup(pairs(24, 50e-6, candidate, 0.001, 1), {1e-7, common}, 0.05);
    return e.high / e.low;
  };
  EXPECT_NEAR(width(50e-6, 10e-6), width(50e-6, 0), 1e-2);
  EXPECT_GT(width(25e-6, 10e-6), width(25e-6, 0) * 1.3);
}

// The interval holds the truth about as often as it says: at least nine times in ten over many draws.
TEST(Statistics, IntervalCovers) {
  int held = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const SpeedupEstimate e =
        estimate_speedup(pairs(4 + static_cast<int>(seed % 24), 3e-3, 2e-3, 0.1, seed), {1e-7, 0}, 0.05);
    held += e.low <= 1.5 && 1.5 <= e.high;
  }
  EXPECT_GE(held, 270);
}

}  // namespace
}  // namespace kz::keck
