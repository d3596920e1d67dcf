// Inputs with other values than get_inputs would draw (threats.md, P16): what a kernel specialised to the published
// distribution, or without its stabilisation, gets wrong. Structure is kept: masks, triangles, sorted and few-valued
// tensors stay as they are.
#pragma once

#include <optional>
#include <vector>

#include "base/random.h"
#include "keck/judge/protocol.h"

namespace kz::keck {

enum class OtherValues {
  kShuffled,  // permuted, then drawn together within sign and range
  kOutliers,  // a few elements 128 times as large as the largest
  kUlp,       // every element moved by at most one unit in the last place
};

// Null where no tensor is free enough to be changed. `arguments` must carry bytes.
std::optional<Value> with_other_values(const Value& arguments, OtherValues how, Rng& rng);

// Which of the value's tensors, in order, hold data in general position.
std::vector<bool> free_tensors(const Value& arguments);

// Swaps a few pairs of elements in each free tensor: another input of the same multiset. False when nothing changed.
bool swap_some(Value& arguments, const std::vector<bool>& free, Rng& rng);

}  // namespace kz::keck
