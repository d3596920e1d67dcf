// CA-GRPO rewards of one group: r_i = 1 + T beta S_i for a right kernel, else 0. Speed counts only once the group is
// reliably right: T = [accuracy >= alpha]. S_i = sigmoid(z-score of the speedup among the right kernels), so a bonus
// never exceeds beta; it is 0 for all where the speedups differ by no more than timing noise.
#pragma once

#include <limits>
#include <vector>

namespace kz::rl {

inline constexpr double kNoTiming = std::numeric_limits<double>::quiet_NaN();

// One rollout's verdict, reduced to what the reward may see.
struct Outcome {
  bool scored = true;                        // false: unscored, takes no part in anything
  bool right = false;                        // pass and accepted by policy
  double speedup = kNoTiming;                // eager / candidate; NaN or not positive: not timed
  double low = kNoTiming, high = kNoTiming;  // 95% interval of the speedup; NaN: unknown
};

struct CaGrpoOptions {
  double alpha = 0.5;   // accuracy from which speed counts
  double beta = 0.1;    // the largest bonus
  double noise = 0.05;  // speedups within this ratio of each other are the same, whatever their intervals say
};

// One member's pay. `base` is 1 or 0, `bonus` in [0, beta]; both 0 and without meaning where not scored.
struct Pay {
  bool scored = true;
  double base = 0, bonus = 0;
  double reward() const { return base + bonus; }
};

struct GroupReward {
  std::vector<Pay> members;
  int scored = 0, right = 0;
  double accuracy = 0;      // right / scored, 0 with none scored
  bool gate = false;        // T
  bool in_noise = true;     // the timed right kernels can't be told apart (also with fewer than two)
  bool with_bonus = false;  // some member got a bonus
};

GroupReward ca_grpo(const std::vector<Outcome>& group, const CaGrpoOptions& options);

}  // namespace kz::rl
