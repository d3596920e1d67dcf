// What a step's groups looked like, for metrics: how many could teach anything, how many were paid for speed.
#pragma once

#include <vector>

#include "rl/ca_grpo.h"

namespace kz::rl {

struct GroupStats {
  int groups = 0, members = 0, unscored = 0;
  int all_right = 0, all_wrong = 0, mixed = 0;  // by scored members; a group with none scored is in none of them
  int zero_advantage = 0;                       // no member has an advantage: no gradient
  int gated_on = 0, with_bonus = 0;
  double accuracy = 0;     // right over scored, all groups together
  double reward_mean = 0;  // over scored members

  void add(const GroupReward& group, const std::vector<double>& advantages);

 private:
  int scored_ = 0, right_ = 0;
  double rewards_ = 0;
};

}  // namespace kz::rl
