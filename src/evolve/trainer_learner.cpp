#include "evolve/trainer_learner.h"

namespace kz::evolve {
namespace {

UpdateStats stats_of(const train::StepStats& s) {
  UpdateStats out;
  out.sequences = s.sequences;
  out.tokens = s.tokens;
  out.loss = s.loss;
  out.lr = s.lr;
  out.grad_norm = s.grad_norm;
  out.entropy = s.entropy;
  out.kl_old = s.kl_old;
  out.kl_start = s.kl_start;
  out.clip_fraction = s.clip_fraction;
  out.mismatch = s.mismatch;
  return out;
}

}  // namespace

Result<UpdateStats> TrainerLearner::policy_update(const std::vector<TrainSequence>& sequences, uint64_t seed) {
  train::PolicyBatch batch;
  batch.seed = seed;
  for (const auto& s : sequences) {
    if (s.answer.empty()) continue;
    batch.sequences.push_back({s.prompt, s.answer, s.logprobs, s.advantage});
  }
  if (batch.sequences.empty()) return UpdateStats{};
  KZ_ASSIGN(const auto stats, trainer_->policy_step(batch));
  return stats_of(stats);
}

Result<UpdateStats> TrainerLearner::likelihood_update(const std::vector<TrainSequence>& sequences, uint64_t) {
  std::vector<train::TrainRow> rows;
  for (const auto& s : sequences) {
    if (!s.answer.empty()) rows.push_back({s.prompt, s.answer});
  }
  if (rows.empty()) return UpdateStats{};
  KZ_ASSIGN(const auto stats, trainer_->sft_step(rows));
  return stats_of(stats);
}

train::TrainerOptions trainer_options(const EvolveOptions& o, Role role) {
  const bool proposer = role == Role::kProposer;
  train::TrainerOptions t;
  t.model = proposer && !o.model.proposer.empty() ? o.model.proposer : o.model.start;
  t.device = o.model.device;
  t.dtype = o.model.dtype;
  t.seed = o.seed;
  t.deterministic = true;
  t.optimizer.lr = o.train.lr * (proposer ? o.proposer.lr_scale : 1.0);
  t.optimizer.beta1 = o.train.beta1;
  t.optimizer.beta2 = o.train.beta2;
  t.optimizer.weight_decay = o.train.weight_decay;
  t.optimizer.grad_clip = o.train.grad_clip;
  t.optimizer.warmup_steps = o.train.warmup_steps;
  t.policy.clip_low = o.train.clip_low;
  t.policy.clip_high = o.train.clip_high;
  t.policy.kl = proposer ? o.proposer.kl : o.train.kl;
  t.policy.temperature = proposer ? o.proposer.sampling.temperature : o.coder.sampling.temperature;
  t.policy.importance_cap = o.train.importance_cap;
  t.policy.norm = o.train.loss == "sequence_mean" ? train::LossNorm::kSequenceMean
                  : o.train.loss == "constant"    ? train::LossNorm::kConstant
                                                  : train::LossNorm::kTokenMean;
  t.policy.constant_length = proposer ? o.proposer.sampling.max_new_tokens : o.coder.sampling.max_new_tokens;
  t.policy.epochs = o.train.epochs;
  t.policy.minibatches = o.train.minibatches;
  return t;
}

}  // namespace kz::evolve
