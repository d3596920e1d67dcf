// The statistics of a timing: medians, an interval over blocks, a decision that admits what it cannot tell. Nothing
// here divides by or takes the logarithm of what may be zero, negative or NaN (threats.md, P23).
#pragma once

#include <vector>

#include "keck/job/verdict.h"

namespace kz::keck {

double median(std::vector<double> values);  // 0 for none
Spread spread(const std::vector<double>& values);

// One block's medians, seconds, of both sides without the clock's constant.
struct Block {
  double reference = 0, candidate = 0;
};

struct SpeedupEstimate {
  double speedup = 0, low = 0, high = 0;  // 95 percent
  Decision decision = Decision::kAmbiguous;
};

// `floor_s`: what the method cannot resolve on a side, seconds, > 0. Block medians below it count as it. Fewer than
// three blocks are ambiguous unless the sides are wholly apart.
SpeedupEstimate estimate_speedup(const std::vector<Block>& blocks, double floor_s, double delta);

}  // namespace kz::keck
