#include "evolve/keck_judge.h"

namespace kz::evolve {

std::optional<std::pair<size_t, keck::Verdict>> KeckJudge::next_verdict(std::chrono::duration<double> wait) {
  return verdicts_.next(wait);
}

std::optional<std::pair<size_t, keck::ModuleReport>> KeckJudge::next_report(std::chrono::duration<double> wait) {
  return reports_.next(wait);
}

}  // namespace kz::evolve
