// How a step's facts become metrics. Names are "part/name"; reports and TensorBoard use them as they are.
#pragma once

#include <map>
#include <string>

#include "evolve/book.h"
#include "evolve/learner.h"
#include "evolve/rollouts.h"
#include "rl/group_stats.h"

namespace kz::evolve {

// Verdicts of a step: rollouts, right, unscored, ambiguous, median-free means, failure reasons.
class KernelTally {
 public:
  void add(const KernelRollout& rollout);
  void put(const std::string& part, std::map<std::string, double>& metrics) const;

 private:
  int rollouts_ = 0, scored_ = 0, right_ = 0, unscored_ = 0, ambiguous_ = 0, timed_ = 0;
  double speedups_ = 0, tokens_ = 0;
  std::map<std::string, int> reasons_;
};

void put_update(const UpdateStats& update, const std::string& part, std::map<std::string, double>& metrics);
void put_book(const BookCounts& counts, std::map<std::string, double>& metrics);

}  // namespace kz::evolve
