// Which modules the Coder trains on in one step: a share from the frontier (0 < l < 1 when last seen), a few hard ones
// (l = 0) that come back after a while, the rest fresh. Solved ones are retired. A pure function of archive, step and
// seed.
#pragma once

#include <vector>

#include "evolve/archive.h"
#include "evolve/options.h"

namespace kz::evolve {

struct Selection {
  std::vector<int64_t> replayed, hard, fresh;  // ids; in all at most the step's prompts
  int missing = 0;                             // modules that the archive does not have: the Proposer is asked for them
};

// `step` is the global step; a module that was seen less than hard_after steps ago is not hard again yet.
Selection select_modules(const Archive& archive, const CoderOptions& options, int64_t step, uint64_t seed);

// When the Proposer could not fill the gap either: up to `n` further modules, frontier before hard, least seen first.
std::vector<int64_t> select_more(const Archive& archive, const Selection& taken, size_t n, uint64_t seed);

}  // namespace kz::evolve
