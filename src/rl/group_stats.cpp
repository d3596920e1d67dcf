#include "rl/group_stats.h"

#include <algorithm>
#include <cmath>

namespace kz::rl {

void GroupStats::add(const GroupReward& group, const std::vector<double>& advantages) {
  ++groups;
  members += static_cast<int>(group.members.size());
  unscored += static_cast<int>(group.members.size()) - group.scored;
  if (group.scored > 0) {
    if (group.right == group.scored) {
      ++all_right;
    } else if (group.right == 0) {
      ++all_wrong;
    } else {
      ++mixed;
    }
  }
  const bool any = std::any_of(advantages.begin(), advantages.end(), [](double a) { return std::abs(a) > 1e-6; });
  if (!any) ++zero_advantage;
  if (group.gate) ++gated_on;
  if (group.with_bonus) ++with_bonus;
  scored_ += group.scored;
  right_ += group.right;
  for (const auto& p : group.members) {
    if (p.scored) rewards_ += p.reward();
  }
  accuracy = scored_ > 0 ? static_cast<double>(right_) / scored_ : 0;
  reward_mean = scored_ > 0 ? rewards_ / scored_ : 0;
}

}  // namespace kz::rl
