#include "keck/judge/control.h"

namespace kz::keck {
namespace {

constexpr const char* kAuditStates[] = {"not_run", "ok", "torch_compute", "failed"};

// The handle and the process are one build; a field that does not fit is our bug, not the world's.
template <typename F>
auto guarded(const char* what, F read) -> Result<decltype(read())> {
  try {
    return read();
  } catch (const nlohmann::json::exception& e) {
    return fail("judge", std::string(what) + ": " + e.what());
  }
}

Json optional_audit(const std::optional<TaskAudit>& audit) {
  if (!audit) return nullptr;
  return {{"sound", audit->sound}, {"message", audit->message}};
}

std::optional<TaskAudit> optional_audit(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return TaskAudit{json.at("sound").get<bool>(), json.at("message").get<std::string>()};
}

}  // namespace

Json to_json(const JudgeReport& report) {
  // Outcome, correctness and timing have their JSON already, as parts of a verdict.
  Verdict verdict;
  verdict.outcome = report.outcome;
  verdict.stage = report.stage;
  verdict.reason = report.reason;
  verdict.message = report.message;
  verdict.correctness = report.correctness;
  verdict.timing = report.timing;
  return {
      {"verdict", to_json(verdict)},
      {"audit", {{"state", kAuditStates[static_cast<size_t>(report.audit.state)]}, {"message", report.audit.message}}},
      {"notes", report.notes},
      {"first_call_ms", json_number(report.first_call_ms)},
      {"check_ms", json_number(report.check_ms)},
      {"time_ms", json_number(report.time_ms)},
      {"judge_cpu_s", json_number(report.judge_cpu_s)},
      {"children_cpu_s", json_number(report.children_cpu_s)},
      {"seed", report.seed},
      {"reference_clean", report.reference_clean}};
}

Result<JudgeReport> judge_report_from_json(const Json& json) {
  if (!json.is_object() || !json.contains("verdict")) return fail("judge", "a report without a verdict");
  KZ_ASSIGN(const Verdict verdict, verdict_from_json(json["verdict"]));
  return guarded("report", [&] {
    JudgeReport report;
    report.outcome = verdict.outcome;
    report.stage = verdict.stage;
    report.reason = verdict.reason;
    report.message = verdict.message;
    report.correctness = verdict.correctness;
    report.timing = verdict.timing;
    const auto state = json.at("audit").at("state").get<std::string>();
    for (size_t i = 0; i < std::size(kAuditStates); ++i) {
      if (state == kAuditStates[i]) report.audit.state = static_cast<AuditReport::State>(i);
    }
    report.audit.message = json.at("audit").at("message").get<std::string>();
    report.notes = json.at("notes").get<std::vector<std::string>>();
    report.first_call_ms = number_from_json(json.at("first_call_ms"));
    report.check_ms = number_from_json(json.at("check_ms"));
    report.time_ms = number_from_json(json.at("time_ms"));
    report.judge_cpu_s = number_from_json(json.at("judge_cpu_s"));
    report.children_cpu_s = number_from_json(json.at("children_cpu_s"));
    report.seed = json.at("seed").get<uint64_t>();
    report.reference_clean = json.at("reference_clean").get<bool>();
    return report;
  });
}

Json to_json(const ControlJob& c) {
  const JudgeJob& job = c.job;
  Json out = {{"task_key", job.task_key},
              {"check", job.check},
              {"trials", job.trials},
              {"timing", job.timing},
              {"interpreted", job.interpreted},
              {"deadline_s", job.deadline_s},
              {"construct_s", job.construct_s},
              {"call_s", job.call_s},
              {"max_bytes", job.max_bytes},
              {"timing_budget_s", job.timing_budget_s},
              {"delta", job.delta},
              {"reference_pid", c.reference_pid},
              {"candidate_pid", c.candidate_pid},
              {"audit", c.audit},
              {"known", optional_audit(c.known)}};
  out["seed"] = job.seed ? Json(*job.seed) : Json(nullptr);
  return out;
}

Result<ControlJob> control_job_from_json(const Json& json) {
  return guarded("job", [&] {
    ControlJob c;
    JudgeJob& job = c.job;
    json.at("task_key").get_to(job.task_key);
    json.at("check").get_to(job.check);
    json.at("trials").get_to(job.trials);
    json.at("timing").get_to(job.timing);
    json.at("interpreted").get_to(job.interpreted);
    json.at("deadline_s").get_to(job.deadline_s);
    json.at("construct_s").get_to(job.construct_s);
    json.at("call_s").get_to(job.call_s);
    json.at("max_bytes").get_to(job.max_bytes);
    json.at("timing_budget_s").get_to(job.timing_budget_s);
    json.at("delta").get_to(job.delta);
    json.at("reference_pid").get_to(c.reference_pid);
    json.at("candidate_pid").get_to(c.candidate_pid);
    json.at("audit").get_to(c.audit);
    c.known = optional_audit(json.at("known"));
    if (!json.at("seed").is_null()) job.seed = json.at("seed").get<uint64_t>();
    return c;
  });
}

Json to_json(const SessionResult& result) {
  return {{"report", to_json(result.report)}, {"task_audit", optional_audit(result.task_audit)}};
}

Result<SessionResult> session_result_from_json(const Json& json) {
  if (!json.is_object() || !json.contains("report")) return fail("judge", "an answer without a report");
  KZ_ASSIGN(JudgeReport report, judge_report_from_json(json["report"]));
  return guarded("task audit", [&] {
    SessionResult result;
    result.report = std::move(report);
    result.task_audit = optional_audit(json.at("task_audit"));
    return result;
  });
}

}  // namespace kz::keck
