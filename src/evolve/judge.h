// Where verdicts and gate reports come from. Asking never blocks; answers come in any order.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "keck/job/request.h"
#include "keck/job/verdict.h"

namespace kz::evolve {

class Judge {
 public:
  virtual ~Judge() = default;
  virtual void ask(size_t key, const keck::EvaluationRequest& request) = 0;
  virtual void ask(size_t key, const keck::ModuleRequest& request) = 0;
  // The next answer of each kind, or nothing within the time; at once nothing when none is outstanding.
  virtual std::optional<std::pair<size_t, keck::Verdict>> next_verdict(std::chrono::duration<double> wait) = 0;
  virtual std::optional<std::pair<size_t, keck::ModuleReport>> next_report(std::chrono::duration<double> wait) = 0;
};

}  // namespace kz::evolve
