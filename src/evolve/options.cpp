#include "evolve/options.h"

#include <algorithm>

namespace kz::evolve {
namespace {

// Reads fields with their limits; a value outside is noted and reported by finish().
class Reader {
 public:
  explicit Reader(Config& config) : config_(config) {}

  void number(const std::string& key, double& value, double low, double high) {
    value = config_.get(key, value);
    if (!(value >= low && value <= high)) config_.reject(key, bounds(low, high));
  }
  void integer(const std::string& key, int& value, int low, int high) {
    const int64_t v = config_.get(key, static_cast<int64_t>(value));
    if (v < low || v > high) return config_.reject(key, bounds(low, high));
    value = static_cast<int>(v);
  }
  void seed(const std::string& key, uint64_t& value) {
    const int64_t v = config_.get(key, static_cast<int64_t>(value));
    if (v < 0) return config_.reject(key, "must not be negative");
    value = static_cast<uint64_t>(v);
  }
  template <typename T>
  void any(const std::string& key, T& value) {
    value = config_.get(key, value);
  }
  void one_of(const std::string& key, std::string& value, const std::vector<std::string>& allowed) {
    value = config_.get(key, value);
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    std::string list;
    for (const auto& a : allowed) list += (list.empty() ? "" : ", ") + a;
    config_.reject(key, "must be one of " + list);
  }

 private:
  static std::string bounds(double low, double high) {
    const auto text = [](double x) {
      std::string s = std::to_string(x);
      s.erase(s.find_last_not_of('0') + 1);
      if (s.back() == '.') s.pop_back();
      return s;
    };
    return "must be from " + text(low) + " to " + text(high);
  }
  Config& config_;
};

const std::vector<std::string> kEstimators = {"grpo", "grpo_floor", "dr_grpo", "rloo", "decoupled"};

void read_sampling(Reader& r, const std::string& at, RoleSampling& s) {
  r.number(at + ".temperature", s.temperature, 0.01, 10);
  r.number(at + ".top_p", s.top_p, 0.01, 1);
  r.integer(at + ".max_new_tokens", s.max_new_tokens, 1, 1 << 20);
}

void read_train(Reader& r, TrainOptions& t) {
  auto estimators = kEstimators;
  estimators.push_back("sft_right");
  r.number("train.lr", t.lr, 0, 1);
  r.integer("train.warmup_steps", t.warmup_steps, 0, 1 << 20);
  r.one_of("train.estimator", t.estimator, estimators);
  r.number("train.std_floor", t.std_floor, 1e-6, 10);
  r.number("train.clip_low", t.clip_low, 0, 1);
  r.number("train.clip_high", t.clip_high, 0, 10);
  r.number("train.kl", t.kl, 0, 10);
  r.number("train.grad_clip", t.grad_clip, 0, 1e9);
  r.number("train.weight_decay", t.weight_decay, 0, 1);
  r.number("train.beta1", t.beta1, 0, 0.99999);
  r.number("train.beta2", t.beta2, 0, 0.99999);
  r.number("train.importance_cap", t.importance_cap, 0, 1e6);
  r.one_of("train.loss", t.loss, {"token_mean", "sequence_mean", "constant"});
  r.integer("train.epochs", t.epochs, 1, 64);
  r.integer("train.minibatches", t.minibatches, 1, 4096);
  r.number("train.negative_weight", t.negative_weight, 0, 10);
}

void read_proposer(Reader& r, ProposerOptions& p) {
  r.integer("proposer.lists", p.lists, 1, 1 << 16);
  r.integer("proposer.group", p.group, 1, 1 << 10);
  r.integer("proposer.rollouts", p.rollouts, 1, 1 << 10);
  read_sampling(r, "proposer", p.sampling);
  r.number("proposer.rho", p.frontier.rho, -100, 0);
  r.number("proposer.min_scored_share", p.frontier.min_scored_share, 0, 1);
  p.duplicate_reward = p.frontier.rho;
  r.number("proposer.duplicate_reward", p.duplicate_reward, -100, 1);
  r.one_of("proposer.estimator", p.estimator, kEstimators);
  r.number("proposer.lr_scale", p.lr_scale, 0, 1000);
  r.number("proposer.kl", p.kl, 0, 10);
}

void read_coder(Reader& r, CoderOptions& c) {
  r.integer("coder.prompts", c.prompts, 1, 1 << 16);
  r.integer("coder.group", c.group, 1, 1 << 10);
  read_sampling(r, "coder", c.sampling);
  r.number("coder.alpha", c.reward.alpha, 0, 1);
  r.number("coder.beta", c.reward.beta, 0, 1);
  r.number("coder.noise", c.reward.noise, 0, 10);
  c.timing = c.reward.beta > 0 ? "gated" : "off";
  r.one_of("coder.timing", c.timing, {"off", "gated", "all"});
  r.number("coder.replay", c.replay, 0, 1);
  r.number("coder.hard", c.hard, 0, 1);
  r.integer("coder.hard_after", c.hard_after, 0, 1 << 20);
  r.number("coder.propose", c.propose, 1, 100);
}

void read_evaluation(Reader& r, EvaluationOptions& e) {
  r.any("evaluation.tasks", e.tasks);
  r.integer("evaluation.count", e.count, 0, 1 << 20);
  r.integer("evaluation.samples", e.samples, 1, 1 << 12);
  r.seed("evaluation.corpus_seed", e.corpus_seed);
  r.any("evaluation.lengths", e.lengths);
  r.seed("evaluation.seed", e.seed);
  e.after_seed = e.seed;
  r.seed("evaluation.after_seed", e.after_seed);
  r.any("evaluation.before", e.before);
  r.any("evaluation.after", e.after);
}

}  // namespace

Result<EvolveOptions> evolve_options(Config& config) {
  EvolveOptions o;
  Reader r(config);
  r.any("name", o.name);
  if (o.name.empty() || o.name.find('/') != std::string::npos) config.reject("name", "must be a folder's name");
  r.seed("seed", o.seed);
  r.integer("loop.rounds", o.rounds, 0, 1 << 16);
  r.integer("loop.proposer_steps", o.proposer_steps, 0, 1 << 16);
  r.integer("loop.coder_steps", o.coder_steps, 0, 1 << 16);
  r.number("loop.max_minutes", o.max_minutes, 0, 1e6);
  r.integer("archive.per_sequence", o.per_sequence, 1, 1 << 16);
  r.any("model.start", o.model.start);
  r.any("model.proposer", o.model.proposer);
  r.one_of("model.format", o.model.format, {"auto", "nano", "chatml"});
  r.any("model.device", o.model.device);
  r.one_of("model.dtype", o.model.dtype, {"auto", "fp32", "bf16"});
  r.integer("model.threads", o.model.threads, 0, 4096);
  read_train(r, o.train);
  read_proposer(r, o.proposer);
  read_coder(r, o.coder);
  r.integer("lists.count", o.lists.count, 1, 1 << 20);
  r.any("lists.apis", o.lists.apis);
  r.any("lists.families", o.lists.families);
  r.any("lists.sizes", o.lists.sizes);
  read_evaluation(r, o.evaluation);
  r.any("keck.url", o.keck.url);
  r.any("keck.token", o.keck.token);
  r.one_of("keck.backend", o.keck.backend, {"cpp", "triton", "cuda"});
  r.one_of("keck.check", o.keck.check, {"strict", "kernelbench", "keck-v0"});
  r.integer("keck.in_flight", o.keck.in_flight, 1, 1 << 16);
  r.integer("keck.workers", o.keck.workers, 0, 4096);
  if (o.coder.reward.beta > 0 && o.coder.timing == "off") {
    config.reject("coder.timing", "coder.beta above 0 needs times: set coder.beta = 0 or leave this out");
  }
  KZ_TRY(config.finish());
  return o;
}

}  // namespace kz::evolve
