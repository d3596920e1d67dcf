// The judge's clock on the CPU, first form (keck.md, part 6): a call begins when its input first exists for the
// candidate (the request carries a memfd that did not exist before) and ends when the judge has the answer and a
// snapshot of the output.
#pragma once

#include <cstdint>
#include <vector>

#include "keck/judge/compare.h"
#include "keck/judge/ending.h"

namespace kz::keck {

struct TimingSetup {
  uint64_t seed = 0;
  double budget_s = 2;      // wall time after which no further block starts
  double draw_seconds = 0;  // what one get_inputs takes
  double deadline = 0;      // steady_seconds
  double call_s = 20;
  double delta = 0.05;
  double first_call_ms = 0;
  int cpu = -1;  // core for judge and children while timing, -1: the judge's own, -2: any
  CompareOptions compare;
  bool mutates = false;  // the reference changes its inputs: what is left of them is verified too
};

// Times both children on the same fresh inputs in blocks of ABBA order; every output is verified. Ends early when the
// candidate fails.
Step<Timing> time_pair(Peer& reference, Peer& candidate, const TimingSetup& setup);

}  // namespace kz::keck
