#include "rl/advantage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace kz::rl {
namespace {

constexpr std::array<std::pair<std::string_view, Estimator>, 5> kNames{{{"grpo", Estimator::kGrpo},
                                                                        {"grpo_floor", Estimator::kGrpoFloor},
                                                                        {"dr_grpo", Estimator::kDrGrpo},
                                                                        {"rloo", Estimator::kRloo},
                                                                        {"decoupled", Estimator::kDecoupled}}};

struct Moments {
  int n = 0;
  double mean = 0, deviation = 0;
};

// Of value(member) over the members that `counts` keeps; population standard deviation.
template <typename Value, typename Counts>
Moments moments(const std::vector<Pay>& group, Value value, Counts counts) {
  Moments m;
  double sum = 0;
  for (const auto& p : group) {
    if (counts(p)) sum += value(p), ++m.n;
  }
  if (m.n == 0) return m;
  m.mean = sum / m.n;
  double squares = 0;
  for (const auto& p : group) {
    if (counts(p)) squares += (value(p) - m.mean) * (value(p) - m.mean);
  }
  m.deviation = std::sqrt(squares / m.n);
  return m;
}

double scale(const Moments& m, const AdvantageOptions& options) {
  // Equal rewards differ by rounding only: dividing that by eps would make advantages of noise.
  if (m.deviation < 1e-12) return 0.0;
  switch (options.estimator) {
    case Estimator::kGrpo:
    case Estimator::kDecoupled:
      return 1.0 / (m.deviation + options.eps);
    case Estimator::kGrpoFloor:
      return 1.0 / std::max(m.deviation, options.std_floor);
    case Estimator::kDrGrpo:
      return 1.0;
    case Estimator::kRloo:
      return static_cast<double>(m.n) / (m.n - 1);
  }
  return 0.0;
}

}  // namespace

Result<Estimator> estimator_from(std::string_view name) {
  for (const auto& [text, estimator] : kNames) {
    if (text == name) return estimator;
  }
  return fail("config",
              "unknown estimator '" + std::string(name) + "': use grpo, grpo_floor, dr_grpo, rloo or decoupled");
}

std::string_view to_string(Estimator estimator) {
  for (const auto& [text, value] : kNames) {
    if (value == estimator) return text;
  }
  return "";
}

std::vector<double> advantages(const std::vector<Pay>& group, const AdvantageOptions& options) {
  const bool apart = options.estimator == Estimator::kDecoupled;
  const auto value = [apart](const Pay& p) { return apart ? p.base : p.reward(); };
  const auto scored = [](const Pay& p) { return p.scored; };
  const Moments all = moments(group, value, scored);
  const double factor = scale(all, options);
  const Moments bonus =
      moments(group, [](const Pay& p) { return p.bonus; }, [](const Pay& p) { return p.scored && p.base > 0; });

  std::vector<double> out(group.size(), 0.0);
  for (size_t i = 0; i < group.size(); ++i) {
    const Pay& p = group[i];
    if (!p.scored) continue;
    out[i] = factor * (value(p) - all.mean);
    if (apart && p.base > 0) out[i] += p.bonus - bonus.mean;
  }
  return out;
}

}  // namespace kz::rl
