// Chains in double precision, by the families' own definitions.
#pragma once

#include <cstddef>
#include <vector>

#include "base/random.h"
#include "corpus/chain.h"

namespace kz::corpus {

struct ChainInputs {
  std::vector<std::vector<double>> x;  // rows of x
  std::vector<std::vector<std::vector<double>>>
      others;  // of each operator: as many rows, or one (vector, weight), or none
};

// As the module's get_inputs draws them, for `rows` rows.
ChainInputs draw_inputs(Rng& rng, const Chain& chain, int rows);

constexpr size_t kNone = static_cast<size_t>(-1);

// Rounding errors of float32, put on the inputs x or on every operator's result.
struct Noise {
  Rng* rng = nullptr;
  bool on_input = false, on_operators = false;
};

// The output of all rows, one after the other; without operator `skip`; disturbed when `noise` has a generator. Empty
// when an operator got values that it does not take.
std::vector<double> evaluate(const Chain& chain, const ChainInputs& inputs, size_t skip = kNone, Noise noise = {});

double magnitude(const std::vector<double>& values);  // root mean square

}  // namespace kz::corpus
