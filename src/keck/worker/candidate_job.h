// One candidate through all stages (keck.md, part 3), in the calling thread.
#pragma once

#include "keck/worker/parts.h"

namespace kz::keck {

class CandidateJob {
 public:
  CandidateJob(Parts& parts, const EvaluationRequest& request, const std::atomic<bool>& cancelled);

  // Error: the host's fault, worth another try. Faults of candidate and task are in the verdict.
  Result<Verdict> run();

 private:
  bool check_sources();           // false: the verdict is made
  Result<bool> probe_task();      // "
  Result<bool> load_candidate();  // "
  Result<void> judge();
  Result<JudgeReport> ask_judge();
  JudgeChild start_audit();
  Result<void> assemble(const JudgeReport& report);
  void settle_policy(const AuditReport& audit);
  void finish();

  bool make(Outcome outcome, Stage stage, std::string reason, std::string message);  // returns false
  Result<bool> blame_end(Stage stage);  // the candidate's process ended: how, as a verdict
  bool blame_build();                   // a failed build explains the failure: true when there was one
  Json load_request(const char* role) const;
  double left() const;  // seconds of the deadline, builds not counted

  Parts& parts_;
  const EvaluationRequest& request_;
  const std::atomic<bool>& cancelled_;
  std::string task_key_;
  double deadline_s_ = 0, started_ = 0;
  Verdict verdict_;
  std::unique_ptr<Child> candidate_, audit_;
  std::string audit_failure_;  // why the audit child did not load
  bool audit_host_fault_ = false;
};

}  // namespace kz::keck
