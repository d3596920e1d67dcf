#include "rl/frontier.h"

#include <cmath>

namespace kz::rl {

std::optional<double> frontier_mean(const FrontierCounts& counts, const FrontierOptions& options) {
  const int needed = static_cast<int>(std::ceil(options.min_scored_share * counts.rollouts - 1e-9));
  if (counts.scored <= 0 || counts.scored < needed) return std::nullopt;
  return static_cast<double>(counts.right) / counts.scored;
}

std::optional<double> frontier_reward(bool valid, const FrontierCounts& counts, const FrontierOptions& options) {
  if (!valid) return options.rho;
  const auto mean = frontier_mean(counts, options);
  if (!mean) return std::nullopt;
  return 1.0 - 2.0 * std::abs(*mean - 0.5);
}

}  // namespace kz::rl
