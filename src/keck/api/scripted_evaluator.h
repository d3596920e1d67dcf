// For tests of what is around the evaluator: answers as the candidate's text says. "pass", "fail", "unscored", "throw",
// "sleep S pass"; anything else passes. Module sources are read the same way.
#pragma once

#include <atomic>
#include <chrono>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "keck/worker/evaluator.h"

namespace kz::keck {

class ScriptedEvaluator : public Evaluator {
 public:
  Verdict evaluate(const EvaluationRequest& request, const std::atomic<bool>& cancelled) override {
    ++evaluations;
    Verdict verdict;
    verdict.outcome = play(request.candidate, cancelled);
    verdict.stage = verdict.outcome == Outcome::kFail       ? Stage::kCompare
                    : verdict.outcome == Outcome::kUnscored ? Stage::kHost
                                                            : Stage::kNone;
    verdict.accepted = verdict.outcome == Outcome::kPass;
    verdict.message = request.candidate;
    verdict.stages_ms = {{"build", 120}, {"check", 30}};
    verdict.cpu_seconds = 0.15;
    verdict.seed = request.seed.value_or(42);
    return verdict;
  }

  ModuleReport check_module(const ModuleRequest& request, const std::atomic<bool>& cancelled) override {
    ++modules;
    ModuleReport report;
    report.outcome = play(request.module, cancelled);
    report.apis = request.apis;
    return report;
  }

  Json capabilities() const override { return {{"backends", {"cpp"}}, {"workers", 2}}; }
  Json statistics() const override { return {{"forks", evaluations.load()}, {"broker", {{"hits", 3}}}}; }

  std::atomic<int> evaluations{0}, modules{0}, running{0};

 private:
  Outcome play(const std::string& script, const std::atomic<bool>& cancelled) {
    ++running;
    std::istringstream words(script);
    Outcome outcome = Outcome::kPass;
    for (std::string word; words >> word;) {
      if (word == "sleep") {
        double seconds = 0;
        words >> seconds;
        for (double left = seconds; left > 0 && !cancelled; left -= 0.002)
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (cancelled) outcome = Outcome::kUnscored;
      } else if (word == "fail") {
        outcome = Outcome::kFail;
      } else if (word == "unscored") {
        outcome = Outcome::kUnscored;
      } else if (word == "throw") {
        --running;
        throw std::runtime_error("as the script says");
      }
    }
    --running;
    return outcome;
  }
};

}  // namespace kz::keck
