// bench: tasks in KernelBench form, the unbiased estimators of their results, reports and TensorBoard files.
// pass@k: Chen et al. 2021 (arXiv 2107.03374), equation 1. fast_p: KernelBench (arXiv 2502.10517), section 3.
#pragma once

#include <cstdint>
#include <vector>

namespace kz::bench {

// The probability that at least one of k samples drawn without replacement from n is good, when c of the n are.
// k > n or n == 0 has no estimate: NaN.
double pass_at_k(int n, int c, int k);

// One sample of one task: right or not, and its speedup over the reference (0 when it is not right or was not timed).
struct Sample {
  bool right = false;
  double speedup = 0;
};
using TaskSamples = std::vector<Sample>;

// fast_p@k over tasks: a sample counts when it is right and, for p > 0, faster than p times the reference.
// p = 0 is pass@k. Tasks without samples are left out; no task at all gives NaN.
double fast_p_at_k(const std::vector<TaskSamples>& tasks, double p, int k);

struct Interval {
  double mean = 0, low = 0, high = 0;
};

// Mean of after - before over pairs (one pair a task) with its 95% percentile bootstrap interval; pairs are resampled.
Interval paired_bootstrap(const std::vector<double>& before, const std::vector<double>& after, uint64_t seed,
                          int resamples = 10000);

}  // namespace kz::bench
