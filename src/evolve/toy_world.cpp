#include "evolve/toy_world.h"

#include <cmath>
#include <sstream>

#include "base/hash.h"
#include "base/json.h"
#include "base/random.h"

namespace kz::evolve::toy {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// "level 3" in a module's or a prompt's text; -1 without.
int level_of(const std::string& text) {
  const size_t at = text.find("level ");
  return at == std::string::npos ? -1 : std::stoi(text.substr(at + 6));
}

std::array<double, kLevels> softmax(const std::array<double, kLevels>& logits) {
  std::array<double, kLevels> p{};
  double sum = 0;
  for (int i = 0; i < kLevels; ++i) sum += p[i] = std::exp(logits[i]);
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace

Result<std::vector<lm::Completion>> ToyGenerator::generate(
    const std::vector<lm::Prompt>& prompts, const lm::Sampling& sampling,
    const std::function<void(size_t, const lm::Completion&)>& done) {
  std::vector<lm::Completion> out;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Rng rng(prompts[i].seed);
    const double u = rng.uniform();
    lm::Completion c;
    c.finish = "stop";
    if (proposer_) {
      const auto p = softmax(logits_);
      int level = 0;
      for (double sum = p[0]; level + 1 < kLevels && u > sum; sum += p[++level]) {
      }
      c.text = "class Model: level " + std::to_string(level) + " size " + std::to_string(rng.below(1000));
      c.prompt_tokens = {0};
      c.tokens = {level};
      c.logprobs = {static_cast<float>(std::log(p[level]))};
    } else {
      const int level = level_of(prompts[i].text);
      const double p = sigmoid(logits_[level]);
      const bool right = sampling.temperature == 0 ? p > 0.5 : u < p;
      c.text = std::string("class ModelNew: ") + (right ? "right" : "wrong") + " way " + std::to_string(rng.below(3));
      c.prompt_tokens = {level};
      c.tokens = {right ? 1 : 0};
      c.logprobs = {static_cast<float>(std::log(right ? p : 1 - p))};
    }
    out.push_back(c);
    if (done) done(i, out.back());
  }
  return out;
}

ToyLearner::ToyLearner(bool proposer, double lr) : proposer_(proposer), lr_(lr), generator_(logits_, proposer) {
  for (int i = 0; i < kLevels; ++i) logits_[i] = proposer ? 0.0 : 2.0 - i;
}

Result<UpdateStats> ToyLearner::policy_update(const std::vector<TrainSequence>& sequences, uint64_t) {
  UpdateStats stats;
  const auto start = logits_;
  for (const auto& s : sequences) {
    if (proposer_) {
      const auto p = softmax(start);
      for (int i = 0; i < kLevels; ++i) logits_[i] += lr_ * s.advantage * ((i == s.answer[0]) - p[i]);
    } else {
      const int level = s.prompt[0];
      logits_[level] += lr_ * s.advantage * (s.answer[0] - sigmoid(start[level]));
    }
    ++stats.sequences;
  }
  return stats;
}

Result<UpdateStats> ToyLearner::likelihood_update(const std::vector<TrainSequence>& sequences, uint64_t seed) {
  auto equal = sequences;
  for (auto& s : equal) s.advantage = 1;
  return policy_update(equal, seed);
}

Status ToyLearner::save(const fs::path& folder) const {
  if (on_save) on_save();
  KZ_TRY(make_dirs(folder));
  std::ostringstream text;
  text.precision(17);
  for (const double x : logits_) text << x << "\n";
  KZ_TRY(write_file_atomic(folder / "logits.txt", text.str()));
  if (on_save) on_save();
  return {};
}

Status ToyLearner::load(const fs::path& folder) {
  KZ_ASSIGN(const std::string text, read_file(folder / "logits.txt"));
  std::istringstream in(text);
  for (double& x : logits_) in >> x;
  return {};
}

void ToyJudge::ask(size_t key, const keck::EvaluationRequest& r) {
  keck::Verdict v;
  ++asked;
  if (on_event) on_event();
  const bool right = r.candidate.find("right") != std::string::npos;
  v.outcome = right ? keck::Outcome::kPass : keck::Outcome::kFail;
  v.stage = right ? keck::Stage::kNone : keck::Stage::kCompare;
  v.reason = right ? "" : "wrong_values";
  v.accepted = right;
  if (unscored_every > 0 && asked % unscored_every == 0) {
    v.outcome = keck::Outcome::kUnscored;
    v.stage = keck::Stage::kHost;
    v.reason = "host_fault";
  } else if (right && r.timing) {
    v.timing.emplace();
    const double drawn = noise > 0 ? 1 + noise * Rng(secret_seed()).uniform() : 1;
    v.timing->speedup = drawn * (1.0 + 0.3 * static_cast<double>(xxhash64(r.candidate) % 3));
    v.timing->ci95[0] = v.timing->speedup * 0.99;
    v.timing->ci95[1] = v.timing->speedup * 1.01;
    v.timing->decision = keck::Decision::kFaster;
  }
  if (verdicts_.size() % 2 == 1) {
    verdicts_.insert(verdicts_.end() - 1, {key, v});
  } else {
    verdicts_.push_back({key, v});
  }
}

void ToyJudge::ask(size_t key, const keck::ModuleRequest& r) {
  ++modules_asked;
  if (on_event) on_event();
  keck::ModuleReport report;
  const int level = level_of(r.module);
  report.outcome = level >= 0 && level < 9 ? keck::Outcome::kPass : keck::Outcome::kFail;
  report.reason = report.outcome == keck::Outcome::kPass ? "" : "not_finite";
  report.canonical_source = r.module;
  report.canonical_hash = sha256_hex(r.module);
  report.operators = {"toy.level" + std::to_string(level), "toy.size" + std::to_string(xxhash64(r.module) % 200)};
  report.apis = r.apis;
  reports_.push_front({key, report});
}

std::optional<std::pair<size_t, keck::Verdict>> ToyJudge::next_verdict(std::chrono::duration<double>) {
  if (verdicts_.empty()) return std::nullopt;
  if (on_event) on_event();
  auto out = verdicts_.front();
  verdicts_.pop_front();
  return out;
}

std::optional<std::pair<size_t, keck::ModuleReport>> ToyJudge::next_report(std::chrono::duration<double>) {
  if (reports_.empty()) return std::nullopt;
  auto out = reports_.front();
  reports_.pop_front();
  return out;
}

}  // namespace kz::evolve::toy
