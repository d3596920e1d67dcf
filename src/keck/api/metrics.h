// What /metrics tells: counters of what really happened, a latency histogram a stage, and the gauges of now.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "keck/job/jobs.h"

namespace kz::keck {

class Metrics {
 public:
  Metrics();
  ~Metrics();

  void answered(const Answer& answer);  // one work that ran (not those answered from the cache)
  void replied(const std::string& route, const std::string& method, int status, double seconds);
  // The text of the exposition format. `evaluator` is Evaluator::statistics(): its numbers are shown one by one.
  std::string text(const JobsStatistics& jobs, const Json& evaluator, size_t waiting);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kz::keck
