// Runs one job through all stages (keck.md, part 3): child, build, correctness, timing, audit, verdict. Thread-safe:
// each calling thread carries one job; slots and the timing lease are shared inside. No HTTP, journal or queue in here.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/layout.h"
#include "keck/job/request.h"
#include "keck/job/verdict.h"

namespace kz::keck {

struct EvaluatorOptions {
  Layout layout;
  fs::path state;                // caches and scratch of this daemon
  int workers = 0;               // candidates in flight, 0: cores
  std::string sandbox = "auto";  // "auto" | "strong" | "weak": refuse to start below it
  double default_deadline_s = 60, max_deadline_s = 600;
  uint64_t memory_mb = 2048;  // of one child
  uint64_t build_cache_mb = 2048;
};

class Evaluator {
 public:
  // Starts zygote, judge and build broker and waits until each has passed its self-test. Error "host" says what is
  // missing.
  static Result<std::unique_ptr<Evaluator>> start(const EvaluatorOptions& options);
  virtual ~Evaluator() = default;

  // Never fails: what goes wrong is in the outcome. `cancelled` is polled; a cancelled job ends with its child killed.
  virtual Verdict evaluate(const EvaluationRequest& request, const std::atomic<bool>& cancelled) = 0;
  virtual ModuleReport check_module(const ModuleRequest& request, const std::atomic<bool>& cancelled) = 0;

  virtual Json capabilities() const = 0;  // backends, sandbox level and features, versions, toolchain
  virtual Json statistics()
      const = 0;  // counters for /metrics: builds, cache hits, fallbacks, forks, kills, seconds a stage
};

}  // namespace kz::keck
