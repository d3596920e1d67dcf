// Everything that an evolve config may say. What the method's authors have not published is a field here with our own
// default (recipe.md 1.3); none of these numbers is the paper's unless configs/kernelzero-k2.toml says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "rl/advantage.h"
#include "rl/ca_grpo.h"
#include "rl/frontier.h"

namespace kz::evolve {

// Sampling of one role.
struct RoleSampling {
  double temperature = 1.0;
  double top_p = 1.0;
  int max_new_tokens = 512;
};

struct TrainOptions {
  double lr = 1e-4;
  int warmup_steps = 5;
  std::string estimator = "rloo";  // of src/rl, or "sft_right": the control that imitates its own right samples
  double std_floor = 0.1;          // of grpo_floor
  double clip_low = 0.2, clip_high = 0.28;
  double kl = 0.02;  // to the start
  double grad_clip = 1.0, weight_decay = 0.0, beta1 = 0.9, beta2 = 0.95;
  double importance_cap = 0.0;      // > 0: truncated importance weights against sampler/trainer mismatch
  std::string loss = "token_mean";  // "token_mean" | "sequence_mean" | "constant"
  int epochs = 1, minibatches = 1;
  double negative_weight = 1.0;  // factor on negative advantages
};

struct ModelOptions {
  std::string start = "models/nano";  // folder of the cold start, both roles
  std::string proposer;               // another start for the Proposer; empty: the same
  std::string format = "auto";        // "auto" | "nano" | "chatml"
  std::string device = "cpu", dtype = "auto";
  int threads = 0;  // 0: all cores
};

struct ProposerOptions {
  int lists = 16;    // API lists a step
  int group = 4;     // modules a list
  int rollouts = 8;  // of the frozen Coder, a module
  RoleSampling sampling;
  rl::FrontierOptions frontier;
  double duplicate_reward = -0.5;  // of a valid module that is near one of the archive; default: rho
  std::string estimator = "rloo";
  double lr_scale = 1.0;  // of train.lr
  double kl = 0.02;
};

struct CoderOptions {
  int prompts = 16;  // P
  int group = 8;     // G
  RoleSampling sampling;
  rl::CaGrpoOptions reward;
  // What Keck is asked to time: "off"; "gated": the right kernels of groups where speed counts (accuracy at least
  // alpha, two different right kernels), in a second question; "all": every right kernel at once. Default: gated with a
  // beta.
  std::string timing = "gated";
  double replay = 0.5;   // share of a step from modules last seen at the frontier
  double hard = 0.1;     // share from modules with l = 0
  int hard_after = 5;    // steps before a hard module comes back
  double propose = 1.6;  // modules that the frozen Proposer is asked for, a module that the step lacks
};

struct ListsOptions {
  int count = 400;
  std::vector<std::string> apis;       // only these (any spelling); empty: all of the catalogue
  std::vector<std::string> families;   // only the APIs of these corpus families; empty: apis decides
  std::vector<double> sizes = {2, 3};  // APIs a list, in equal shares
};

struct EvaluationOptions {
  std::string tasks;  // a folder in KernelBench form; empty: made by the corpus from lists.families
  int count = 200;    // modules, at most
  int samples = 8;
  uint64_t corpus_seed = 99;
  std::vector<double> lengths = {0, 0.3, 0.45, 0.25};  // weights of chains of 1, 2, 3, … operators
  uint64_t seed = 5, after_seed = 5;                   // of sampling, before and after; the same: paired
  bool before = true, after = true;
};

struct KeckOptions {
  std::string url;  // empty: a server of our own for the life of the command
  std::string token;
  std::string backend = "cpp", check = "strict";
  int in_flight = 64;  // jobs at the server at once
  int workers = 0;     // of our own server; 0: its default
};

struct EvolveOptions {
  std::string name = "run";
  uint64_t seed = 0;
  int rounds = 2, proposer_steps = 3, coder_steps = 8;  // a round
  double max_minutes = 0;  // the loop ends early rather than pass this; 0: no limit, needed for exact repeats
  int per_sequence = 1;    // archive: modules of one operator sequence
  ModelOptions model;
  ProposerOptions proposer;
  CoderOptions coder;
  TrainOptions train;
  ListsOptions lists;
  EvaluationOptions evaluation;
  KeckOptions keck;

  int steps() const { return rounds * (proposer_steps + coder_steps); }
};

// Reads every field and the unknown-key check; paths stay as written. The resolved TOML is config.resolved().
Result<EvolveOptions> evolve_options(Config& config);

}  // namespace kz::evolve
