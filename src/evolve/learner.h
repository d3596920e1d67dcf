// One role's model: it writes, it is trained, its state is saved. The real one is a train::Trainer (trainer_learner.h);
// tests use a small table that learns for real.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/files.h"
#include "lm/generator.h"

namespace kz::evolve {

struct TrainSequence {
  std::vector<int32_t> prompt, answer;
  std::vector<float> logprobs;  // of the sampler
  double advantage = 0;
};

struct UpdateStats {
  int64_t sequences = 0, tokens = 0;
  double loss = 0, lr = 0, grad_norm = 0, entropy = 0, kl_old = 0, kl_start = 0, clip_fraction = 0, mismatch = 0;
};

class Learner {
 public:
  virtual ~Learner() = default;
  virtual lm::Generator& generator() = 0;  // samples from the weights as they are now
  // Clipped policy gradient over sequences with advantages; `seed` orders minibatches.
  virtual Result<UpdateStats> policy_update(const std::vector<TrainSequence>& sequences, uint64_t seed) = 0;
  // Maximum likelihood on the answers (the control "sft_right"); advantages are ignored.
  virtual Result<UpdateStats> likelihood_update(const std::vector<TrainSequence>& sequences, uint64_t seed) = 0;
  virtual Status save(const fs::path& folder) const = 0;  // exact state, replaced atomically
  virtual Status load(const fs::path& folder) = 0;
};

}  // namespace kz::evolve
