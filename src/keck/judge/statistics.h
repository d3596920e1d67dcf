// The statistics of a timing: medians, an interval over blocks, a decision that admits what it cannot tell. Nothing
// here divides by or takes the logarithm of what may be zero, negative or NaN (threats.md, P23).
#pragma once

#include <vector>

#include "keck/job/verdict.h"

namespace kz::keck {

double median(std::vector<double> values);  // 0 for none
Spread spread(const std::vector<double>& values);

// Both sides on the same input, one after the other: seconds without the clock's constant.
struct PairReading {
  double reference = 0, candidate = 0;
};

struct SpeedupEstimate {
  double speedup = 0, low = 0, high = 0;  // 95 percent
  Decision decision = Decision::kAmbiguous;
};

// What the method cannot tell, seconds: `floor_s` (> 0) of either side by itself, `common_s` of the constant that was
// taken from both alike. Readings below the floor count as it. The interval is that of the median over the pairs.
struct Resolution {
  double floor_s = 1e-6, common_s = 0;
};
SpeedupEstimate estimate_speedup(const std::vector<PairReading>& pairs, const Resolution& resolution, double delta);

}  // namespace kz::keck
