// The error that a right kernel may have, element by element (compare.h has the formula).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "keck/judge/protocol.h"

namespace kz::keck {

// Of one output tensor: `expected` is the reference in its declared precision, `oracle` the fp64 run or empty. Elements
// that are not finite in either do not matter; the caller has compared them already. `coarsest` is the coarsest dtype
// among the inputs: an output that is declared wider, but that the reference computes no better than that, is held to
// that. `inputs` is the coarsest floating dtype among inputs and parameters: a wider output whose reference is no
// better than that is held to that.
struct ErrorBounds {
  std::vector<double> target;  // what the error is measured against
  std::vector<double> bound;   // largest error that is right
  double relative = 0;         // the relative part, reported as the tolerance
  double widening = 1;         // by which the reference's own error widened the bounds, at most
};

ErrorBounds error_bounds(Dtype dtype, std::span<const int64_t> shape, std::vector<double> expected,
                         std::vector<double> oracle, bool oracle_is_wider, int64_t sum_length,
                         Dtype coarsest = Dtype::kFloat64);

double unit_of(Dtype dtype);  // half a unit in the last place of a floating dtype, relative

// Elements of one slice: the trailing dimensions that together hold at least 32 elements; everything when there are
// fewer.
int64_t slice_length(std::span<const int64_t> shape);

}  // namespace kz::keck
