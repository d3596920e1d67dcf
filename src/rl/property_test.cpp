#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "rl/advantage.h"
#include "rl/frontier.h"

namespace kz::rl {
namespace {

constexpr Estimator kAll[] = {Estimator::kGrpo, Estimator::kGrpoFloor, Estimator::kDrGrpo, Estimator::kRloo,
                              Estimator::kDecoupled};

std::vector<Outcome> any_group() {
  const auto n = *rc::gen::inRange(0, 17);
  std::vector<Outcome> group;
  for (int i = 0; i < n; ++i) {
    Outcome o;
    o.scored = *rc::gen::inRange(0, 5) != 0;
    o.right = *rc::gen::arbitrary<bool>();
    o.speedup = *rc::gen::inRange(0, 8) == 0 ? kNoTiming : *rc::gen::inRange(1, 4000) / 1000.0;
    if (*rc::gen::arbitrary<bool>()) {
      const double half = *rc::gen::inRange(0, 300) / 1000.0;
      o.low = o.speedup * (1 - half);
      o.high = o.speedup * (1 + half);
    }
    group.push_back(o);
  }
  return group;
}

CaGrpoOptions any_options() {
  return {.alpha = *rc::gen::inRange(0, 11) / 10.0, .beta = *rc::gen::inRange(0, 11) / 10.0, .noise = 0.05};
}

double sum(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}

void holds(const char* what, const std::function<void()>& property) { EXPECT_TRUE(rc::check(what, property)); }

TEST(RlProperty, BonusIsBoundedAndOnlyForRight) {
  holds("0 <= bonus <= beta, and only a right, scored member of a gated group has one", [] {
    const auto group = any_group();
    const auto options = any_options();
    const GroupReward got = ca_grpo(group, options);
    for (size_t i = 0; i < group.size(); ++i) {
      const Pay& p = got.members[i];
      RC_ASSERT(p.bonus >= 0 && p.bonus <= options.beta);
      if (p.bonus > 0) RC_ASSERT(group[i].scored && group[i].right && got.gate);
      RC_ASSERT(p.base == (group[i].scored && group[i].right ? 1.0 : 0.0));
    }
  });
}

TEST(RlProperty, RightIsAlwaysPaidMoreThanWrong) {
  holds("no bonus makes a wrong kernel worth a right one", [] {
    const GroupReward got = ca_grpo(any_group(), any_options());
    for (const auto& a : got.members) {
      for (const auto& b : got.members) {
        if (a.scored && b.scored && a.base > b.base) RC_ASSERT(a.reward() > b.reward());
      }
    }
  });
}

TEST(RlProperty, AdvantagesSumToZeroAndUnscoredGetNone) {
  holds("sum is 0, all are finite, unscored members get exactly 0", [] {
    const GroupReward group = ca_grpo(any_group(), any_options());
    for (const Estimator e : kAll) {
      const auto a = advantages(group.members, {.estimator = e});
      RC_ASSERT(std::abs(sum(a)) < 1e-6);
      for (size_t i = 0; i < a.size(); ++i) {
        RC_ASSERT(std::isfinite(a[i]));
        if (!group.members[i].scored) RC_ASSERT(a[i] == 0.0);
      }
    }
  });
}

TEST(RlProperty, AdvantagesIgnoreAShiftOfAllRewards) {
  holds("adding a constant to every reward changes nothing", [] {
    const GroupReward group = ca_grpo(any_group(), any_options());
    const double shift = *rc::gen::inRange(-50, 50) / 10.0;
    auto moved = group.members;
    for (auto& p : moved) p.base += shift;
    for (const Estimator e : kAll) {
      if (e == Estimator::kDecoupled) continue;  // base is correctness there, which has no shift
      const auto a = advantages(group.members, {.estimator = e});
      const auto b = advantages(moved, {.estimator = e});
      for (size_t i = 0; i < a.size(); ++i) RC_ASSERT(std::abs(a[i] - b[i]) < 1e-6);
    }
  });
}

TEST(RlProperty, UnscoredMembersChangeNothing) {
  holds("removing the unscored members leaves the others' advantages as they were", [] {
    const auto group = any_group();
    const auto options = any_options();
    std::vector<Outcome> scored;
    for (const auto& o : group) {
      if (o.scored) scored.push_back(o);
    }
    const auto with = ca_grpo(group, options).members, without = ca_grpo(scored, options).members;
    for (const Estimator e : kAll) {
      const auto a = advantages(with, {.estimator = e}), b = advantages(without, {.estimator = e});
      size_t j = 0;
      for (size_t i = 0; i < group.size(); ++i) {
        if (group[i].scored) RC_ASSERT(std::abs(a[i] - b[j++]) < 1e-12);
      }
    }
  });
}

TEST(RlProperty, FrontierIsSymmetricAndBounded) {
  holds("r(l) = r(1 - l), within [0, 1], and needs its share of scored rollouts", [] {
    const int n = *rc::gen::inRange(1, 33), scored = *rc::gen::inRange(0, n + 1),
              right = *rc::gen::inRange(0, scored + 1);
    const auto a = frontier_reward(true, {n, scored, right}, {});
    const auto b = frontier_reward(true, {n, scored, scored - right}, {});
    RC_ASSERT(a.has_value() == b.has_value());
    RC_ASSERT(a.has_value() == (scored > 0 && 4 * scored >= 3 * n));
    if (a) RC_ASSERT(*a >= 0 && *a <= 1 && std::abs(*a - *b) < 1e-12);
  });
}

}  // namespace
}  // namespace kz::rl
