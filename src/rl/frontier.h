// rl: what the method pays for, as pure functions of verdicts. No torch, no model, no clock.
// This header: the Proposer's frontier reward, r_P = 1 - 2 |l - 1/2| with l the share of right Coder rollouts.
#pragma once

#include <optional>

namespace kz::rl {

struct FrontierOptions {
  double rho = -0.5;               // reward of an invalid module, below 0
  double min_scored_share = 0.75;  // 6 of 8: with fewer scored rollouts the module gets no reward at all
};

// What the Coder's rollouts said of one module.
struct FrontierCounts {
  int rollouts = 0;  // asked for
  int scored = 0;    // pass or fail
  int right = 0;
};

// Mean of right over scored rollouts; nothing when too few were scored, so that a module can't be paid for verdicts
// that never came (threats.md M4).
std::optional<double> frontier_mean(const FrontierCounts& counts, const FrontierOptions& options);

// rho for an invalid module, 1 - 2|l - 1/2| for a valid one, nothing when too few rollouts were scored.
std::optional<double> frontier_reward(bool valid, const FrontierCounts& counts, const FrontierOptions& options);

}  // namespace kz::rl
