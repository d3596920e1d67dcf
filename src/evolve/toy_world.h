// A small world for tests of the loop: modules have a difficulty, the Coder has one logit a difficulty and is right
// with that probability, the Proposer has a distribution over difficulties. Both learn for real by policy gradient; the
// judge answers by the text alone, late and out of order. Only the size is untrue.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <string>
#include <vector>

#include "evolve/judge.h"
#include "evolve/learner.h"

namespace kz::evolve::toy {

inline constexpr int kLevels = 10;  // difficulty 9 does not pass the gate

// Where tests put runs: memory where the system has it, since a run syncs to disk at every step.
inline fs::path scratch() { return fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path(); }

class ToyGenerator : public lm::Generator {
 public:
  ToyGenerator(const std::array<double, kLevels>& logits, bool proposer) : logits_(logits), proposer_(proposer) {}
  Result<std::vector<lm::Completion>> generate(const std::vector<lm::Prompt>& prompts, const lm::Sampling& sampling,
                                               const std::function<void(size_t, const lm::Completion&)>& done) override;

 private:
  const std::array<double, kLevels>& logits_;
  bool proposer_;
};

class ToyLearner : public Learner {
 public:
  ToyLearner(bool proposer, double lr);
  lm::Generator& generator() override { return generator_; }
  Result<UpdateStats> policy_update(const std::vector<TrainSequence>& sequences, uint64_t seed) override;
  Result<UpdateStats> likelihood_update(const std::vector<TrainSequence>& sequences, uint64_t seed) override;
  Status save(const fs::path& folder) const override;
  Status load(const fs::path& folder) override;
  const std::array<double, kLevels>& logits() const { return logits_; }
  std::function<void()> on_save;  // before and after a checkpoint is written

 private:
  bool proposer_;
  double lr_;
  std::array<double, kLevels> logits_{};
  ToyGenerator generator_;
};

// Verdicts come back in pairs, the later one first. `unscored_every` > 0: each such question's first answer is
// unscored.
class ToyJudge : public Judge {
 public:
  void ask(size_t key, const keck::EvaluationRequest& request) override;
  void ask(size_t key, const keck::ModuleRequest& request) override;
  std::optional<std::pair<size_t, keck::Verdict>> next_verdict(std::chrono::duration<double> wait) override;
  std::optional<std::pair<size_t, keck::ModuleReport>> next_report(std::chrono::duration<double> wait) override;
  int asked = 0, modules_asked = 0;
  int unscored_every = 0;
  double noise = 0;                // of speedups, a share; drawn anew on every question
  std::function<void()> on_event;  // a new question, an answer

 private:
  std::deque<std::pair<size_t, keck::Verdict>> verdicts_;
  std::deque<std::pair<size_t, keck::ModuleReport>> reports_;
};

}  // namespace kz::evolve::toy
