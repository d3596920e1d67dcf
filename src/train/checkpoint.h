// A trainer's state on disk: a model folder with optimizer.safetensors and trainer.json in it. Torch is visible here.
#pragma once

#include <functional>

#include "lm/model.h"
#include "lm/tokenizer.h"

namespace kz::train {

// Replaces `folder` by what `fill` writes into a new one beside it: after a kill the old folder or the new one is
// there, whole.
Status replace_folder(const fs::path& folder, const std::function<Status(const fs::path&)>& fill);

struct TrainerState {
  int64_t step = 0;
  std::vector<lm::NamedTensor> optimizer;  // AdamW::state()
};

Status save_checkpoint(const fs::path& folder, const lm::Model& model, const lm::Tokenizer& tokenizer,
                       const TrainerState& state);
// Checks everything, then copies into the model and `state.optimizer` in place. Error "checkpoint".
Status load_checkpoint(const fs::path& folder, lm::Model& model, TrainerState& state);

}  // namespace kz::train
