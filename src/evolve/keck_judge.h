// The judge of a real run: a Keck server, asked through its asynchronous client.
#pragma once

#include "evolve/judge.h"
#include "keck/client/evaluations.h"

namespace kz::evolve {

class KeckJudge : public Judge {
 public:
  KeckJudge(const keck::Client& client, int in_flight) : verdicts_(client, in_flight), reports_(client, in_flight) {}
  void ask(size_t key, const keck::EvaluationRequest& request) override { verdicts_.submit(key, request); }
  void ask(size_t key, const keck::ModuleRequest& request) override { reports_.submit(key, request); }
  std::optional<std::pair<size_t, keck::Verdict>> next_verdict(std::chrono::duration<double> wait) override;
  std::optional<std::pair<size_t, keck::ModuleReport>> next_report(std::chrono::duration<double> wait) override;

 private:
  keck::Evaluations verdicts_;
  keck::ModuleChecks reports_;
};

}  // namespace kz::evolve
