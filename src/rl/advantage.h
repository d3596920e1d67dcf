// Advantages of one group by any of the estimators. Unscored members count for nothing and get 0; over the scored ones
// the advantages of every estimator sum to 0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rl/ca_grpo.h"

namespace kz::rl {

// With c_i = r_i - mean r over the n scored members:
//   kGrpo       c_i / (std + eps)            inflates the bonus where all are right (recipe.md 1.4)
//   kGrpoFloor  c_i / max(std, std_floor)
//   kDrGrpo     c_i
//   kRloo       c_i n / (n - 1)              leave one out
//   kDecoupled  GRPO on `base` alone, plus bonus_i - mean bonus over the members with base 1
enum class Estimator { kGrpo, kGrpoFloor, kDrGrpo, kRloo, kDecoupled };

Result<Estimator> estimator_from(std::string_view name);  // "grpo" "grpo_floor" "dr_grpo" "rloo" "decoupled"
std::string_view to_string(Estimator estimator);

struct AdvantageOptions {
  Estimator estimator = Estimator::kRloo;
  double std_floor = 0.1;
  double eps = 1e-6;
};

std::vector<double> advantages(const std::vector<Pay>& group, const AdvantageOptions& options);

}  // namespace kz::rl
