// judge: the process that owns inputs, expected outputs, comparison and clock (keck.md, parts 5 and 6), and its handle
// in the daemon. A judge holds no torch and runs no candidate byte; children are asked over the value protocol
// (protocol.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/layout.h"
#include "keck/job/verdict.h"

namespace kz::keck {

// What one candidate is asked. Deadlines are seconds of wall time.
struct JudgeJob {
  std::string task_key;  // hash of the module's source; names the task's audit in the cache. Empty: audit every time
  std::string check = "strict";  // "strict" | "kernelbench" | "keck-v0"
  int trials = 0;  // 0: the check's own number (strict 3 and up to 2 with other values, kernelbench 5, keck-v0 1)
  std::optional<uint64_t> seed;  // else secret, and reported
  bool timing = true;
  bool interpreted = false;              // Triton's interpreter: correctness only, timing stays null
  double deadline_s = 60;                // of the whole job
  double construct_s = 30, call_s = 20;  // of one request to a child
  uint64_t max_bytes = 1ULL << 30;       // of all tensors of one call, inputs and outputs
  double timing_budget_s = 2;            // ceiling for slow modules; microsecond modules take some 60 ms
  double delta = 0.05;                   // margin of the decision
};

// One child as the daemon hands it over: its end of the socket (borrowed, duplicated by the judge) and its host pid.
// A child serves keck_worker.calls on that socket and has nothing in flight.
struct JudgeChild {
  int fd = -1;
  int pid = -1;
  bool present() const { return fd >= 0; }
};

struct JudgeChildren {
  JudgeChild reference, candidate, audit;  // audit may be absent
};

// Asked back by a running job, in the thread that called run().
struct JudgeCallbacks {
  // Before timing: blocks until the lease is held; it is released when the returned pointer goes. Empty: no lease
  // needed.
  std::function<std::shared_ptr<void>()> timing_lease;
  // Once the candidate is right and children.audit is absent: brings up the audit child (it stays the caller's). A
  // child that is not present ends the job as unscored/host. Empty: no audit.
  std::function<JudgeChild()> audit_child;
};

struct AuditReport {
  enum class State { kNotRun, kOk, kTorchCompute, kFailed };
  State state = State::kNotRun;
  std::string message;  // kTorchCompute: the operator's name ("aten::mm"); kFailed: why (the verdict is then a fail)
};

struct JudgeReport {
  Outcome outcome = Outcome::kUnscored;
  Stage stage = Stage::kNone;
  std::string reason, message;  // stable code and one line, as in Verdict
  std::optional<Correctness> correctness;
  std::optional<Timing> timing;
  AuditReport audit;
  std::vector<std::string> notes;  // what was skipped and why ("trial outliers: reference not finite")
  double first_call_ms = 0;
  double check_ms = 0, time_ms = 0;  // wall
  double judge_cpu_s = 0, children_cpu_s = 0;
  uint64_t seed = 0;
  bool reference_clean = true;  // false: the reference child has a request in flight or is gone; do not use it again
};

Json to_json(const JudgeReport& report);
Result<JudgeReport> judge_report_from_json(const Json& json);

// Results of task audits, shared by all judges of a daemon (thread-safe).
class TaskAudits;
std::shared_ptr<TaskAudits> make_task_audits(size_t capacity = 4096);

struct JudgeOptions {
  std::shared_ptr<TaskAudits> audits;  // null: a cache of its own
  int cpu = -1;                        // core that judge and children share while timing, -1: any one, -2: no pinning
};

// One judge process. Handles one job at a time; not thread-safe. Dies with its handle.
class Judge {
 public:
  // Error "judge": the executable is missing or did not answer.
  static Result<std::unique_ptr<Judge>> start(const Layout& layout, const JudgeOptions& options = {});
  virtual ~Judge() = default;

  // Error "judge": the judge died or hung; it has been killed, replace it and try again (never the candidate's fault).
  // Error "cancelled": `cancelled` became true; the judge is still good, the job's children must be killed.
  // Everything else, also a child that dies, hangs or lies, is in the report.
  virtual Result<JudgeReport> run(const JudgeJob& job, const JudgeChildren& children, const JudgeCallbacks& callbacks,
                                  const std::atomic<bool>& cancelled) = 0;
  virtual bool alive() const = 0;
  virtual int pid() const = 0;
};

}  // namespace kz::keck
