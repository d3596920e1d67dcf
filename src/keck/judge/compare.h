// Whether a candidate's values are the reference's (keck.md, part 5). Pure functions of bytes.
//
// strict: structure, shape, dtype and device equal; NaN and Inf at the same places; each element's error against the
// fp64 run within
//   tol = rel * |o| + floor * S + 16 * E        (o: fp64 value; S, E: rms of o and of the reference's own error in o's
//   slice)
// where rel and floor come from the declared precision and the length of possible sums. A slice is the trailing
// dimensions that hold at least 32 elements, so that a small row is held to its own size. Integers, bools and scalars
// are exact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keck/job/verdict.h"
#include "keck/judge/protocol.h"

namespace kz::keck {

enum class Check { kStrict, kKernelBench, kKeckV0 };
std::optional<Check> parse_check(std::string_view name);

// Largest error of one comparison. `scaled` is the largest error over its own bound times `tolerance`, so an answer is
// right exactly when scaled <= tolerance everywhere (and nothing but values was wrong).
struct Comparison {
  bool equal = false;
  std::string reason;   // "" | "structure" "shape" "dtype" "device" "non_finite" "wrong_values"
  std::string message;  // one line: where and what
  double max_abs_error = 0, scaled = 0, tolerance = 0;
  double widening =
      1;  // how far the reference's own error stretched a bound: what a comparison without fp64 run must allow
  double wrong_share = 0;  // of the elements of the first wrong output
  std::optional<Mismatch> first_mismatch;
};

struct CompareOptions {
  Check check = Check::kStrict;
  int64_t sum_length = 1;            // bound on the number of terms of one output: elements of the largest input
  double factor = 1;                 // of every tolerance
  Dtype coarsest = Dtype::kFloat64;  // among floating inputs and parameters
};

// Values must carry bytes. `oracle` is the fp64 run's value or null; a part of it that does not fit is ignored.
// `inputs` serve index outputs: another index of an equal value is right. All outputs are numbered in order of
// traversal.
Comparison compare(const Value& expected, const Value* oracle, const Value& got, const std::vector<Value>& inputs,
                   const CompareOptions& options);

// Whether every floating tensor in the value is finite.
bool all_finite(const Value& value);

}  // namespace kz::keck
