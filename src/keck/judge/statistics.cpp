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

struct Interval {
  double low, centre, high;
};

// Of the median of a few numbers, 95 percent: by order statistics, which needs no shape of the scatter; by Student's t
// for fewer than six; for a single one a factor of two either way (these are logarithms).
Interval median_interval(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double centre = quantile(values, 0.5);
  if (n == 1) return {centre - std::log(2.0), centre, centre + std::log(2.0)};
  if (n >= 6) {
    const double rank = static_cast<double>(n) / 2 - 0.98 * std::sqrt(static_cast<double>(n));
    const size_t k = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
    return {values[k], centre, values[n - 1 - k]};
  }
  static constexpr double kStudent[] = {0, 12.706, 4.303, 3.182, 2.776};
  double mean = 0, squares = 0;
  for (double v : values) mean += v / static_cast<double>(n);
  for (double v : values) squares += (v - mean) * (v - mean);
  const double half = kStudent[n - 1] * std::sqrt(squares / static_cast<double>((n - 1) * n));
  return {std::min(mean - half, centre), centre, std::max(mean + half, centre)};
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

SpeedupEstimate estimate_speedup(const std::vector<PairReading>& pairs, const Resolution& resolution, double delta) {
  SpeedupEstimate out;
  const double floor = resolution.floor_s;
  if (pairs.empty() || !(floor > 0)) return out;
  const auto held = [&](double s) { return std::isfinite(s) ? std::clamp(s, floor, 1e9) : floor; };
  const auto bounded = [](double log) { return std::clamp(log, -20.0, 20.0); };  // a factor of 5e8 is enough to say
  const auto interval_at = [&](double shift) {
    std::vector<double> logs;
    logs.reserve(pairs.size());
    for (const PairReading& p : pairs) {
      logs.push_back(bounded(std::log(held(p.reference - shift)) - std::log(held(p.candidate - shift))));
    }
    return median_interval(std::move(logs));
  };
  const Interval centre = interval_at(0);
  const double common = std::isfinite(resolution.common_s) ? std::max(resolution.common_s, 0.0) : 0;
  const Interval less = interval_at(-common), more = interval_at(common);
  std::vector<double> references, candidates;
  for (const PairReading& p : pairs) {
    references.push_back(held(p.reference));
    candidates.push_back(held(p.candidate));
  }
  // Each side may be off by the floor in the worst direction, at most by nine tenths of itself.
  const double r = std::min(floor / median(references), 0.9), c = std::min(floor / median(candidates), 0.9);
  out.speedup = std::exp(centre.centre);
  out.low = std::exp(bounded(std::min({centre.low, less.low, more.low}))) * (1 - r) / (1 + c);
  out.high = std::exp(bounded(std::max({centre.high, less.high, more.high}))) * (1 + r) / (1 - c);
  out.decision = decide(out.low, out.high, delta);
  return out;
}

}  // namespace kz::keck
