#include "keck/judge/statistics.h"

#include <algorithm>
#include <cmath>

namespace kz::keck {
namespace {

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto i = static_cast<size_t>(at);
  const double next = i + 1 < sorted.size() ? sorted[i + 1] : sorted[i];
  return sorted[i] + (at - static_cast<double>(i)) * (next - sorted[i]);
}

std::vector<double> sorted_finite(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  std::sort(values.begin(), values.end());
  return values;
}

// 97.5th percentile of Student's t with `freedom` degrees.
double t_quantile(size_t freedom) {
  static constexpr double kTable[] = {0,     12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                      2.201, 2.179,  2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
  return freedom < std::size(kTable) ? kTable[freedom] : 2.0;
}

Decision decide(double low, double high, double delta) {
  if (low > 1 + delta) return Decision::kFaster;
  if (high < 1 / (1 + delta)) return Decision::kSlower;
  if (low >= 1 / (1 + delta) && high <= 1 + delta) return Decision::kSame;
  return Decision::kAmbiguous;
}

}  // namespace

double median(std::vector<double> values) {
  values = sorted_finite(std::move(values));
  return values.empty() ? 0 : quantile(values, 0.5);
}

Spread spread(const std::vector<double>& values) {
  const std::vector<double> sorted = sorted_finite(values);
  Spread out;
  if (sorted.empty()) return out;
  out.median = quantile(sorted, 0.5);
  out.iqr = quantile(sorted, 0.75) - quantile(sorted, 0.25);
  out.min = sorted.front();
  out.n = static_cast<int>(sorted.size());
  return out;
}

SpeedupEstimate estimate_speedup(const std::vector<Block>& blocks, double floor_s, double delta) {
  SpeedupEstimate out;
  if (blocks.empty() || !(floor_s > 0)) return out;
  const auto held = [&](double s) { return std::isfinite(s) ? std::clamp(s, floor_s, 1e9) : floor_s; };
  const auto bounded = [](double log) { return std::clamp(log, -20.0, 20.0); };  // a factor of 5e8 is enough to say
  std::vector<double> logs, references, candidates;
  for (const Block& b : blocks) {
    references.push_back(held(b.reference));
    candidates.push_back(held(b.candidate));
    logs.push_back(bounded(std::log(references.back()) - std::log(candidates.back())));
  }
  const double n = static_cast<double>(logs.size());
  double mean = 0, squares = 0;
  for (double l : logs) mean += l / n;
  for (double l : logs) squares += (l - mean) * (l - mean);
  // One block says nothing of its scatter: take a factor of two either way.
  const double half = logs.size() < 2 ? std::log(2.0) : t_quantile(logs.size() - 1) * std::sqrt(squares / (n - 1) / n);
  const double centre = median(logs);
  out.speedup = std::exp(centre);
  // Both sides may be off by the floor, in the worst direction; at most by nine tenths of themselves.
  const double r = std::min(floor_s / median(references), 0.9), c = std::min(floor_s / median(candidates), 0.9);
  out.low = std::exp(bounded(std::min(mean - half, centre))) * (1 - r) / (1 + c);
  out.high = std::exp(bounded(std::max(mean + half, centre))) * (1 + r) / (1 - c);
  out.decision = decide(out.low, out.high, delta);
  return out;
}

}  // namespace kz::keck
