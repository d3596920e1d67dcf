// What the daemon's handle and the judge process say to each other: frames with JSON (docs/architecture.md, part 2).
#pragma once

#include <optional>

#include "base/json.h"
#include "keck/judge/judge.h"
#include "keck/judge/session.h"

namespace kz::keck {

enum class ControlType : uint16_t {
  kReady = 48,      // judge: started
  kJob = 49,        // daemon: {job, known audit} + the sockets of reference and candidate
  kReport = 50,     // judge: {report, task audit}
  kNeedLease = 51,  // judge -> kLease {granted}
  kLease = 52,
  kNeedAudit = 53,  // judge -> kAuditChild {pid} + socket, or {pid: -1}
  kAuditChild = 54,
};

constexpr int kControlFd = 3;  // of the judge process

struct ControlJob {
  JudgeJob job;
  int reference_pid = -1, candidate_pid = -1;
  bool audit = false;  // an operator audit is wanted
  std::optional<TaskAudit> known;
};

Json to_json(const ControlJob& job);
Result<ControlJob> control_job_from_json(const Json& json);
Json to_json(const SessionResult& result);
Result<SessionResult> session_result_from_json(const Json& json);

}  // namespace kz::keck
