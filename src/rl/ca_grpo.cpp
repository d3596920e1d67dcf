#include "rl/ca_grpo.h"

#include <cmath>
#include <cstddef>

namespace kz::rl {
namespace {

bool timed(const Outcome& o) { return o.scored && o.right && std::isfinite(o.speedup) && o.speedup > 0; }

// The fastest and the slowest timed kernel are told apart by ratio and by their intervals, where these are known.
bool inside_noise(const Outcome& fast, const Outcome& slow, double noise) {
  if (fast.speedup <= slow.speedup * (1.0 + noise)) return true;
  return std::isfinite(fast.low) && std::isfinite(slow.high) && fast.low <= slow.high;
}

// sigmoid of the z-score of each timed kernel; population standard deviation.
void give_bonus(const std::vector<Outcome>& group, double beta, GroupReward& out) {
  double sum = 0, squares = 0;
  int n = 0;
  for (const auto& o : group) {
    if (timed(o)) sum += o.speedup, ++n;
  }
  const double mean = sum / n;
  for (const auto& o : group) {
    if (timed(o)) squares += (o.speedup - mean) * (o.speedup - mean);
  }
  const double deviation = std::sqrt(squares / n);
  for (size_t i = 0; i < group.size(); ++i) {
    if (timed(group[i]))
      out.members[i].bonus = beta / (1.0 + std::exp(-(group[i].speedup - mean) / (deviation + 1e-9)));
  }
  out.with_bonus = true;
}

}  // namespace

GroupReward ca_grpo(const std::vector<Outcome>& group, const CaGrpoOptions& options) {
  GroupReward out;
  out.members.resize(group.size());
  const Outcome* fast = nullptr;
  const Outcome* slow = nullptr;
  for (size_t i = 0; i < group.size(); ++i) {
    const Outcome& o = group[i];
    out.members[i].scored = o.scored;
    if (!o.scored) continue;
    ++out.scored;
    if (o.right) {
      ++out.right;
      out.members[i].base = 1.0;
    }
    if (!timed(o)) continue;
    if (!fast || o.speedup > fast->speedup) fast = &o;
    if (!slow || o.speedup < slow->speedup) slow = &o;
  }
  if (out.scored > 0) out.accuracy = static_cast<double>(out.right) / out.scored;
  out.gate = out.right > 0 && out.accuracy >= options.alpha;
  out.in_noise = !fast || fast == slow || inside_noise(*fast, *slow, options.noise);
  if (out.gate && !out.in_noise && options.beta > 0) give_bonus(group, options.beta, out);
  return out;
}

}  // namespace kz::rl
