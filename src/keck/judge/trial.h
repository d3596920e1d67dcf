// One input, what the reference makes of it, and whether a candidate makes the same.
#pragma once

#include <optional>
#include <string>

#include "keck/judge/compare.h"
#include "keck/judge/ending.h"
#include "keck/judge/handover.h"

namespace kz::keck {

struct Trial {
  std::string label;  // "seed 0", "shuffled", "outliers"
  Value inputs;       // a list, with bytes
  Handover handover;
  Value expected;
  std::optional<Value> oracle;  // the fp64 run
  Value inputs_after;           // what the reference left of its inputs
  bool mutates = false;

  Trial(std::string name, Value arguments) : label(std::move(name)), inputs(std::move(arguments)), handover(inputs) {}
};

// What a call of a child gave.
struct CallResult {
  Value output, inputs_after;
  Handover::ReadBack inputs_seen;
  double seconds = 0;
};

// Calls the module on a fresh copy of the inputs. Errors as Peer's.
Result<CallResult> call(Peer& peer, const Value& inputs, const Handover& handover, uint16_t flags, double deadline);

// Elements of the largest tensor among the inputs and the module's state: a bound on the terms of one sum.
int64_t sum_length(const Value& inputs, int64_t largest_parameter);

// Output first, then, for strict, what became of the inputs.
Comparison compare_call(const Trial& trial, const CallResult& got, const CompareOptions& options);

// Whether memory that an earlier output lay in still holds it. `output` has its addresses and the bytes seen then.
bool still_there(const Peer& peer, const Value& output);

}  // namespace kz::keck
