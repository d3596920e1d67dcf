// The learner of a real run: a train::Trainer of its own for the role.
#pragma once

#include <memory>

#include "evolve/learner.h"
#include "evolve/options.h"
#include "evolve/records.h"
#include "train/trainer.h"

namespace kz::evolve {

class TrainerLearner : public Learner {
 public:
  explicit TrainerLearner(std::unique_ptr<train::Trainer> trainer)
      : trainer_(std::move(trainer)), engine_(trainer_->generator()) {}
  lm::Generator& generator() override { return *engine_; }
  Result<UpdateStats> policy_update(const std::vector<TrainSequence>& sequences, uint64_t seed) override;
  Result<UpdateStats> likelihood_update(const std::vector<TrainSequence>& sequences, uint64_t seed) override;
  Status save(const fs::path& folder) const override { return trainer_->save(folder); }
  Status load(const fs::path& folder) override { return trainer_->load(folder); }
  const train::Trainer& trainer() const { return *trainer_; }

 private:
  std::unique_ptr<train::Trainer> trainer_;
  std::shared_ptr<lm::Engine> engine_;
};

// The trainer's options of one role, from an evolve config.
train::TrainerOptions trainer_options(const EvolveOptions& options, Role role);

}  // namespace kz::evolve
