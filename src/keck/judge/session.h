// One job from hello to report: construction, trials, task audit, operator audit, timing. Runs in the judge process.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "keck/judge/judge.h"
#include "keck/judge/transform.h"
#include "keck/judge/trial.h"

namespace kz::keck {

// What the task audit said, as the daemon keeps it per task and check.
struct TaskAudit {
  bool sound = false;
  std::string message;  // why not
};

struct SessionHooks {
  std::function<bool()> timing_lease;                      // false: not granted, skip timing
  std::function<std::optional<JudgeChild>()> audit_child;  // may be empty: no audit
  int cpu = -1;
};

struct SessionResult {
  JudgeReport report;
  std::optional<TaskAudit> task_audit;  // when this job made it
};

class Session {
 public:
  Session(const JudgeJob& job, Peer reference, Peer candidate, SessionHooks hooks, std::optional<TaskAudit> known);
  SessionResult run();

 private:
  Step<void> flow();
  Step<void> construct();
  Step<void> load_parameters(const std::vector<NamedTensor>& have);
  Step<Value> draw_inputs(uint64_t seed);
  Step<Trial> make_trial(std::string label, Value inputs);
  // The trials in order: seeds, then, for strict, other values of the first one's inputs. Each is made, run and
  // forgotten.
  Step<void> run_trials();
  Step<void> run_other_values(OtherValues how, const char* label);
  Step<void> audit_task();  // with the first trial as its material
  Step<void> run_trial(const Trial& trial, Peer& peer);
  Step<void> audit_operators();
  Step<void> time();

  double call_deadline() const;
  CompareOptions compare_options(const Value& inputs) const;
  tl::unexpected<Ending> wrong(const Comparison& comparison, const Trial& trial) const;

  JudgeJob job_;
  Peer reference_, candidate_;
  std::optional<Peer> audit_;
  SessionHooks hooks_;
  std::optional<TaskAudit> known_;
  SessionResult result_;
  Check check_ = Check::kStrict;
  double deadline_ = 0;
  int64_t largest_parameter_ = 0;
  Dtype coarsest_parameter_ = Dtype::kFloat64;
  bool parameters_differ_ = false;  // the candidate has not got all of the reference's
  std::string construct_payload_;   // seed and init inputs
  Value init_inputs_;
  std::optional<Handover> init_handover_, state_handover_;
  std::optional<Trial> first_;
  Rng other_values_{0};
  double widening_ = 1;      // of bounds, by the reference's own error
  double draw_seconds_ = 0;  // of one get_inputs
  // The last outputs of either side, to see whether the next call left them alone; a reference may reuse its buffer.
  std::optional<Value> last_output_, last_expected_;
  bool overwrites_ = false;
};

}  // namespace kz::keck
