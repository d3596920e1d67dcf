// The two kinds of step, as functions of what they need. A step changes the archive and one role's weights and returns
// the record that the run commits; called again with the same state, step and answers it returns the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "evolve/archive.h"
#include "evolve/book.h"
#include "evolve/learner.h"
#include "evolve/options.h"
#include "evolve/prompt.h"

namespace kz::evolve {

struct Loop {
  const EvolveOptions& options;
  const std::vector<std::vector<std::string>>& lists;
  Archive& archive;
  Book& book;
  Learner& coder;
  Learner& proposer;
  PromptFormat coder_format = PromptFormat::kNano, proposer_format = PromptFormat::kNano;
  std::function<void(const std::string& what, size_t done, size_t total)> on_progress;  // within a step; may be empty
};

// Proposer phase: modules for some API lists, gate, rollouts of the frozen Coder, frontier reward, update of the
// Proposer. `ordinal` counts the Proposer's own steps over the run: it walks through the lists.
Result<StepRecord> proposer_step(Loop& loop, int64_t step, int64_t ordinal);

// Coder phase: modules by the curriculum, new ones from the frozen Proposer where it lacks some, CA-GRPO.
Result<StepRecord> coder_step(Loop& loop, int64_t step);

}  // namespace kz::evolve
