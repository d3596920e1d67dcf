// What one evaluator's jobs share: processes, pools and counters.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "keck/build/broker.h"
#include "keck/sandbox/slot.h"
#include "keck/worker/child.h"
#include "keck/worker/evaluator.h"
#include "keck/worker/judges.h"
#include "keck/worker/module_gate.h"
#include "keck/worker/references.h"
#include "keck/worker/slots.h"
#include "keck/worker/zygote.h"

namespace kz::keck {

// Counts by name, for /metrics.
class Counters {
 public:
  void add(const std::string& name, double n = 1) {
    std::lock_guard lock(mutex_);
    values_[name] += n;
  }
  std::map<std::string, double> all() const {
    std::lock_guard lock(mutex_);
    return values_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> values_;
};

class Parts {
 public:
  static Result<std::unique_ptr<Parts>> start(const EvaluatorOptions& options);
  ~Parts();

  // A child in a slot of its own. A dead zygote is replaced first; its references are forgotten. Error "host".
  Result<std::unique_ptr<Child>> start_child();
  BuildResult build(const BuildRequest& request);

  EvaluatorOptions options;
  int workers = 1;
  sandbox::Capabilities capabilities;
  sandbox::Level level = sandbox::Level::kWeak;
  ApiNames names;
  std::string device;  // "cpu: model name"
  Counters counters;
  TimingGate timing;
  std::unique_ptr<sandbox::SlotPool> slots;
  std::unique_ptr<BuildBroker> broker;
  std::unique_ptr<Judges> judges;
  std::unique_ptr<References> references;
  Json zygote_ready() const;
  uint64_t forks() const;

 private:
  explicit Parts(const EvaluatorOptions& o) : options(o), build_places_(1) {}
  Result<std::shared_ptr<Zygote>> zygote();
  ZygoteOptions zygote_options() const;

  Places build_places_;
  mutable std::mutex zygote_mutex_;
  std::shared_ptr<Zygote> zygote_;
};

}  // namespace kz::keck
