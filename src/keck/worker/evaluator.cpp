#include "keck/worker/evaluator.h"

#include "base/clock.h"
#include "base/log.h"
#include "keck/worker/candidate_job.h"
#include "keck/worker/module_job.h"
#include "keck/worker/parts.h"

namespace kz::keck {
namespace {

constexpr int kAttempts = 3;  // a fault of the host is tried again, elsewhere

class EvaluatorImpl final : public Evaluator {
 public:
  explicit EvaluatorImpl(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

  Verdict evaluate(const EvaluationRequest& request, const std::atomic<bool>& cancelled) override {
    Verdict verdict;
    for (int attempt = 1;; ++attempt) {
      auto result = CandidateJob(*parts_, request, cancelled).run();
      if (result) {
        verdict = std::move(*result);
        break;
      }
      log::warn("evaluation: " + result.error().message);
      parts_->counters.add("host_faults");
      if (attempt < kAttempts) continue;
      verdict.outcome = Outcome::kUnscored;
      verdict.stage = Stage::kHost;
      verdict.reason = result.error().code;
      verdict.message = result.error().message;
      break;
    }
    parts_->counters.add("verdicts_" + std::string(to_string(verdict.outcome)));
    parts_->counters.add("verdict_cpu_seconds", verdict.cpu_seconds);
    for (const auto& [stage, ms] : verdict.stages_ms) parts_->counters.add("seconds_" + stage, ms / 1e3);
    return verdict;
  }

  ModuleReport check_module(const ModuleRequest& request, const std::atomic<bool>& cancelled) override {
    for (int attempt = 1;; ++attempt) {
      auto report = run_module_job(*parts_, request, cancelled);
      if (report) return *report;
      log::warn("module gate: " + report.error().message);
      if (attempt < kAttempts) continue;
      ModuleReport unscored;
      unscored.reason = report.error().code;
      unscored.message = report.error().message;
      return unscored;
    }
  }

  Json capabilities() const override {
    Json missing = sandbox::missing(parts_->capabilities, parts_->level);
    return {
        {"backends", {"cpp", "triton"}},
        {"triton_interpreter", true},
        {"device", parts_->device},
        {"workers", parts_->workers},
        {"sandbox",
         {{"level", sandbox::to_string(parts_->level)}, {"limits", parts_->slots->describe()}, {"missing", missing}}},
        {"host", sandbox::to_json(parts_->capabilities)},
        {"versions", parts_->zygote_ready().value("versions", Json::object())},
        {"toolchain", parts_->broker->capabilities()}};
  }

  Json statistics() const override {
    Json out = Json::object();
    for (const auto& [name, value] : parts_->counters.all()) out[name] = value;
    out["forks"] = parts_->forks();
    out["idle_references"] = parts_->references->idle();
    out["judges_replaced"] = parts_->judges->replaced();
    out["broker"] = parts_->broker->statistics();
    return out;
  }

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace

Result<std::unique_ptr<Evaluator>> Evaluator::start(const EvaluatorOptions& options) {
  KZ_ASSIGN(auto parts, Parts::start(options));
  return std::make_unique<EvaluatorImpl>(std::move(parts));
}

}  // namespace kz::keck
