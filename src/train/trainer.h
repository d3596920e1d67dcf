// train: one set of weights and its optimiser. SFT and policy-gradient steps on token sequences; exact checkpoints.
// No torch in this header. A role of the co-evolution is a Trainer of its own, or both roles share one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lm/engine.h"

namespace kz::train {

struct OptimizerOptions {
  double lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.0;  // on matrices only
  double grad_clip = 1.0;     // of the global norm; 0: off
  std::string schedule =
      "constant";  // after warm-up: "constant" | "cosine" | "linear", down to min_lr_ratio at total_steps
  int64_t warmup_steps = 0, total_steps = 0;
  double min_lr_ratio = 0.1;
};

enum class LossNorm {
  kTokenMean,     // sum over all answer tokens of the batch / their number
  kSequenceMean,  // mean over sequences of each one's token mean (GRPO as published)
  kConstant,      // sum / (sequences * constant_length) (Dr.GRPO)
};

struct PolicyOptions {
  double clip_low = 0.2, clip_high = 0.28;  // the ratio is clipped to [1 - clip_low, 1 + clip_high]
  double kl = 0.0;           // weight of the k3 estimate of KL(policy || start); > 0 keeps a frozen copy of the start
  double temperature = 1.0;  // at which old_logprobs were sampled
  double importance_cap = 0.0;  // > 0: old log-probs recomputed here, weights min(pi_here / pi_sampler, cap)
  LossNorm norm = LossNorm::kTokenMean;
  int64_t constant_length = 512;    // for kConstant
  int epochs = 1, minibatches = 1;  // optimiser steps of one policy_step: epochs * minibatches
};

struct TrainerOptions {
  fs::path model;              // Hugging Face folder; without weights they are drawn from `seed`
  std::string device = "cpu";  // "cpu" | "cuda" | "cuda:N"
  std::string dtype = "auto";  // compute: "fp32" | "bf16" (fp32 master weights); auto: fp32 on the CPU, bf16 on CUDA
  uint64_t seed = 0;
  bool deterministic = false;  // CUDA: slower kernels that repeat bit for bit; the CPU always does
  int64_t micro_tokens = 0;    // padded tokens of one forward and backward; 0: 4,096 on the CPU, 131,072 on CUDA
  OptimizerOptions optimizer;
  PolicyOptions policy;
  lm::EngineOptions engine;  // of generator(); device and dtype are the trainer's own
};

// The loss counts answer tokens only, each given all before it.
struct TrainRow {
  std::vector<int32_t> prompt, answer;  // the answer includes its end token
};

struct PolicySequence {
  std::vector<int32_t> prompt, answer;
  std::vector<float> old_logprobs;  // of the sampler, one an answer token
  double advantage = 0;
};

struct PolicyBatch {
  std::vector<PolicySequence> sequences;
  uint64_t seed = 0;  // order within minibatches
};

struct StepStats {
  int64_t step = 0;  // optimiser steps so far
  int64_t sequences = 0;
  int64_t tokens = 0;  // all, prompts too
  int64_t answer_tokens = 0;
  double loss = 0;
  double lr = 0, grad_norm = 0;  // the norm before clipping, of the last optimiser step
  double seconds = 0;
  // policy_step only; token means unless said
  double entropy = 0;        // nats
  double kl_old = 0;         // k3 estimate of KL(sampler || policy)
  double kl_start = 0;       // k3 estimate of KL(policy || start); 0 without a start
  double clip_fraction = 0;  // share of tokens whose clipped term was the smaller one
  double mismatch = 0;  // mean absolute difference between the sampler's log-probs and ours before the first update
};

class Trainer {
 public:
  static Result<std::unique_ptr<Trainer>> open(const TrainerOptions& options);
  virtual ~Trainer() = default;

  // One optimiser step over all rows (micro-batches by length). Error "train" for tokens outside the vocabulary, rows
  // longer than the model's positions, or a loss that is not finite; the weights are then unchanged. With `stats` false
  // the loss is not read back (no wait for the device) and stats().loss is NaN.
  virtual Result<StepStats> sft_step(const std::vector<TrainRow>& rows, bool stats = true) = 0;
  virtual Result<StepStats> policy_step(const PolicyBatch& batch) = 0;

  // Mean loss an answer token, without an update.
  virtual Result<double> evaluate(const std::vector<TrainRow>& rows) = 0;
  // Log-probs of the answer tokens at a temperature, as policy_step computes them.
  virtual Result<std::vector<std::vector<float>>> logprobs(const std::vector<TrainRow>& rows,
                                                           double temperature = 1.0) = 0;

  // Exact state: weights, optimiser, step. `folder` is also a model folder (config.json, model.safetensors,
  // tokenizer.json) that Engine::open reads. Replaced atomically; a load that fails leaves the trainer as it was.
  virtual Status save(const fs::path& folder) const = 0;
  virtual Status load(const fs::path& folder) = 0;
  // The model alone, to be shipped. dtype "fp32" or "bf16".
  virtual Status export_model(const fs::path& folder, const std::string& dtype = "fp32") const = 0;

  // Samples from the live weights: after a step the next generate() uses the new ones. Not to be used during a step.
  virtual std::shared_ptr<lm::Engine> generator() = 0;

  virtual const lm::ModelConfig& config() const = 0;
  virtual const lm::Tokenizer& tokenizer() const = 0;
  virtual int64_t step() const = 0;
  virtual double lr() const = 0;        // of the next step
  virtual double lr_base() const = 0;   // before warm-up and schedule
  virtual void set_lr(double lr) = 0;   // base rate from now on; the schedule still scales it
  virtual PolicyOptions& policy() = 0;  // may be changed between steps; kl > 0 only if it was > 0 at open
};

}  // namespace kz::train
