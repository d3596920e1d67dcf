#include "bench/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace kz::bench {

double pass_at_k(int n, int c, int k) {
  if (n <= 0 || k <= 0 || k > n) return std::numeric_limits<double>::quiet_NaN();
  c = std::clamp(c, 0, n);
  if (n - c < k) return 1;
  // 1 - C(n-c, k) / C(n, k) as a product, which neither overflows nor cancels.
  double none = 1;
  for (int i = n - c + 1; i <= n; ++i) none *= 1 - static_cast<double>(k) / i;
  return 1 - none;
}

double fast_p_at_k(const std::vector<TaskSamples>& tasks, double p, int k) {
  double sum = 0;
  int counted = 0;
  for (const TaskSamples& samples : tasks) {
    if (samples.empty()) continue;
    const auto good = std::count_if(samples.begin(), samples.end(),
                                    [p](const Sample& s) { return s.right && (p <= 0 || s.speedup > p); });
    sum += pass_at_k(static_cast<int>(samples.size()), static_cast<int>(good), k);
    ++counted;
  }
  return counted > 0 ? sum / counted : std::numeric_limits<double>::quiet_NaN();
}

Interval paired_bootstrap(const std::vector<double>& before, const std::vector<double>& after, uint64_t seed,
                          int resamples) {
  const size_t n = std::min(before.size(), after.size());
  if (n == 0) return {std::nan(""), std::nan(""), std::nan("")};
  std::vector<double> difference(n);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += difference[i] = after[i] - before[i];

  Rng rng(derive_seed(seed, "bench/bootstrap"));
  std::vector<double> means(static_cast<size_t>(resamples));
  for (double& mean : means) {
    double total = 0;
    for (size_t i = 0; i < n; ++i) total += difference[rng.below(n)];
    mean = total / static_cast<double>(n);
  }
  std::sort(means.begin(), means.end());
  const auto quantile = [&](double q) {
    return means[static_cast<size_t>(std::lround(q * (static_cast<double>(means.size()) - 1)))];
  };
  return {sum / static_cast<double>(n), quantile(0.025), quantile(0.975)};
}

}  // namespace kz::bench
