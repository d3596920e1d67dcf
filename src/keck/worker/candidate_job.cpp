#include "keck/worker/candidate_job.h"

#include <algorithm>

#include "base/clock.h"
#include "keck/worker/source_check.h"

namespace kz::keck {
namespace {

constexpr double kCallSeconds = 20;
constexpr double kLeastJudgeSeconds = 5;
constexpr int kDyingMs = 500;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Stage stage_named(const std::string& name) {
  if (name == "format") return Stage::kFormat;
  if (name == "build") return Stage::kBuild;
  return Stage::kLoad;
}

// The first line that a person wants of a compiler's log.
std::string error_line(const std::string& log) {
  const size_t at = log.find("error");
  if (at == std::string::npos) return first_line(log);
  const size_t start = log.rfind('\n', at);
  return first_line(log.substr(start == std::string::npos ? 0 : start + 1));
}

}  // namespace

CandidateJob::CandidateJob(Parts& parts, const EvaluationRequest& request, const std::atomic<bool>& cancelled)
    : parts_(parts), request_(request), cancelled_(cancelled), started_(steady_seconds()) {
  const double asked = request.deadline_s > 0 ? request.deadline_s : parts.options.default_deadline_s;
  deadline_s_ = std::min(asked, parts.options.max_deadline_s);
  verdict_.backend = request.backend.empty() ? "cpp" : request.backend;
  verdict_.device = parts.device;
  verdict_.sandbox = std::string(sandbox::to_string(parts.level));
  task_key_ = task_key(request.module);
}

bool CandidateJob::make(Outcome outcome, Stage stage, std::string reason, std::string message) {
  verdict_.outcome = outcome;
  verdict_.stage = stage;
  verdict_.reason = std::move(reason);
  verdict_.message = std::move(message);
  return false;
}

double CandidateJob::left() const {
  const double building = candidate_ ? candidate_->service().build_seconds() : 0;
  return deadline_s_ - (steady_seconds() - started_ - building);
}

Json CandidateJob::load_request(const char* role) const {
  return {{"role", role}, {"source", request_.candidate}, {"backend", verdict_.backend}};
}

Result<Verdict> CandidateJob::run() {
  if (check_sources()) {
    Result<bool> loaded = probe_task();
    if (loaded && *loaded) loaded = load_candidate();
    if (loaded && *loaded) {
      if (auto judged = judge(); !judged) loaded = tl::unexpected(judged.error());
    }
    if (!loaded) {
      if (loaded.error().code != "cancelled") return tl::unexpected(loaded.error());
      make(Outcome::kUnscored, Stage::kHost, "cancelled", "cancelled");
    }
  }
  finish();
  return verdict_;
}

bool CandidateJob::check_sources() {
  if (verdict_.backend != "cpp" && verdict_.backend != "triton")
    return make(Outcome::kUnscored, Stage::kHost, "no_device",
                "no device for backend '" + verdict_.backend + "' on this host");
  if (auto fault = check_source(request_.module))
    return make(Outcome::kUnscored, Stage::kTask, fault->reason, "module: " + fault->message);
  if (auto fault = check_source(request_.candidate))
    return make(Outcome::kFail, Stage::kFormat, fault->reason, "candidate: " + fault->message);
  return true;
}

bool CandidateJob::blame_build() {
  const BuildTotals builds = candidate_->service().totals();
  if (builds.failed_reason.empty()) return false;
  if (builds.failed_reason == "toolchain")
    make(Outcome::kUnscored, Stage::kHost, "toolchain", first_line(builds.log));
  else
    make(Outcome::kFail, Stage::kBuild, builds.failed_reason, error_line(builds.log));
  return true;
}

Result<bool> CandidateJob::blame_end(Stage stage) {
  const ChildEnd& end = candidate_->end();
  if (end.how == ChildEnd::How::kOrphaned) return fail("host", "the zygote died");
  return make(Outcome::kFail, stage, reason_of(end), "the candidate's process " + describe(end));
}

Result<bool> CandidateJob::probe_task() {
  KZ_ASSIGN(const auto defect, parts_.references->probe(task_key_, request_.module, deadline_s_, cancelled_));
  return defect ? make(Outcome::kUnscored, Stage::kTask, defect->reason, defect->message) : true;
}

Result<bool> CandidateJob::load_candidate() {
  KZ_ASSIGN(candidate_, parts_.start_child());
  Stopwatch watch;
  auto outcome = candidate_->load(load_request("candidate"), deadline_s_, cancelled_);
  verdict_.stages_ms["build"] = candidate_->service().build_seconds() * 1e3;
  verdict_.stages_ms["load"] = watch.seconds() * 1e3 - verdict_.stages_ms["build"];
  if (!outcome) {
    const std::string& code = outcome.error().code;
    if (code == "host" || code == "cancelled") return tl::unexpected(outcome.error());
    if (code == "timeout")
      return make(Outcome::kFail, Stage::kLoad, "timeout", "the candidate " + outcome.error().message);
    if (code == "protocol") return make(Outcome::kFail, Stage::kLoad, "protocol", outcome.error().message);
    return blame_end(Stage::kLoad);
  }
  if (bool_field(*outcome, "ok")) return true;
  const std::string stage = text_field(*outcome, "stage");
  if (stage != "format" && blame_build()) return false;
  return make(Outcome::kFail, stage_named(stage), text_field(*outcome, "reason", "exception"),
              text_field(*outcome, "message"));
}

JudgeChild CandidateJob::start_audit() {
  auto child = parts_.start_child();
  if (!child) {
    audit_host_fault_ = true;
    return {};
  }
  audit_ = std::move(*child);
  auto outcome = audit_->load(load_request("audit"), std::max(left(), kLeastJudgeSeconds), cancelled_);
  if (outcome && bool_field(*outcome, "ok")) return audit_->judge_child();
  audit_host_fault_ = !outcome && (outcome.error().code == "host" || outcome.error().code == "cancelled");
  audit_failure_ = outcome ? text_field(*outcome, "message") : outcome.error().message;
  return {};
}

Result<JudgeReport> CandidateJob::ask_judge() {
  KZ_ASSIGN(auto judge, parts_.judges->take(cancelled_));
  KZ_ASSIGN(auto reference, parts_.references->take(task_key_, request_.module, deadline_s_, cancelled_));
  if (reference.defect) {
    JudgeReport report;
    report.outcome = Outcome::kUnscored;
    report.stage = Stage::kTask;
    report.reason = reference.defect->reason;
    report.message = reference.defect->message;
    return report;
  }
  JudgeJob job;
  job.task_key = task_key_;
  job.check = request_.check;
  job.seed = request_.seed;
  job.timing = request_.timing;
  job.interpreted = verdict_.backend == "triton";
  job.deadline_s = std::max(left(), kLeastJudgeSeconds);
  job.construct_s = job.deadline_s;  // load_inline may be called in a constructor
  job.call_s = std::min(kCallSeconds, job.deadline_s);
  JudgeCallbacks callbacks;
  callbacks.timing_lease = [this] { return parts_.timing.lease(); };
  if (request_.policy.require_custom_kernel) callbacks.audit_child = [this] { return start_audit(); };
  const double reference_cpu = reference.child->cpu_seconds();
  auto report = judge->run(job, {reference.child->judge_child(), candidate_->judge_child(), {}}, callbacks, cancelled_);
  verdict_.cpu_seconds += reference.child->cpu_seconds() - reference_cpu;
  if (report && !report->reference_clean && !reference.child->alive() &&
      reference.child->end().how == ChildEnd::How::kOrphaned)
    return fail("host", "the zygote died");
  parts_.references->give_back(task_key_, std::move(reference.child), report && report->reference_clean);
  return report;
}

Result<void> CandidateJob::judge() {
  KZ_ASSIGN(const JudgeReport report, ask_judge());
  if (audit_host_fault_)
    return fail(cancelled_ ? "cancelled" : "host", "the audit child could not be started: " + audit_failure_);
  return assemble(report);
}

Result<void> CandidateJob::assemble(const JudgeReport& report) {
  verdict_.outcome = report.outcome;
  verdict_.stage = report.stage;
  verdict_.reason = report.reason;
  verdict_.message = report.message;
  verdict_.correctness = report.correctness;
  verdict_.timing = report.timing;
  verdict_.seed = report.seed;
  verdict_.stages_ms["check"] = report.check_ms;
  verdict_.stages_ms["time"] = report.time_ms;
  verdict_.cpu_seconds += report.judge_cpu_s;
  if (report.outcome == Outcome::kPass) {
    settle_policy(report.audit);
    return {};
  }
  if (!audit_failure_.empty()) {
    make(Outcome::kFail, Stage::kPolicy, "audit_failed", "loaded once but not again: " + audit_failure_);
    return {};
  }
  if (report.outcome != Outcome::kFail || report.stage == Stage::kCompare || report.stage == Stage::kPolicy) return {};
  if (blame_build()) return {};
  // A socket closes a moment before its process is dead.
  const bool hung_up = report.reason == "crashed" || report.reason == "protocol";
  if (!candidate_->alive(hung_up ? kDyingMs : 0)) {
    KZ_TRY(blame_end(report.stage));
  } else if (report.reason == "raised" || report.reason == "init_raised") {
    verdict_.reason = "exception";  // one word for it, wherever it happens
  } else if (report.reason == "crashed") {
    verdict_.reason = "protocol";  // it lives and has hung up
  }
  return {};
}

void CandidateJob::settle_policy(const AuditReport& audit) {
  verdict_.accepted = true;
  if (!request_.policy.require_custom_kernel) return;
  const auto refuse = [&](const char* label, std::string message) {
    verdict_.accepted = false;
    verdict_.labels.push_back(label);
    verdict_.stage = Stage::kPolicy;
    verdict_.reason = label;
    verdict_.message = std::move(message);
  };
  const BuildTotals builds = candidate_->service().totals();
  if (audit.state == AuditReport::State::kTorchCompute && audit.message == "no_kernel")
    refuse("no_kernel", "forward calls no kernel of its own");
  else if (audit.state == AuditReport::State::kTorchCompute)
    refuse("torch_compute", "computes by " + audit.message + ", not by a kernel of its own");
  else if (audit.state != AuditReport::State::kOk)
    refuse("unaudited", "the audit did not run");
  else if (!builds.borrowed.empty() && !request_.policy.allow_libraries)
    refuse("torch_compute", "its build computes by " + builds.borrowed);
}

void CandidateJob::finish() {
  if (audit_) {
    verdict_.cpu_seconds += audit_->end().cpu_seconds + audit_->end().builds.cpu_seconds;
    audit_.reset();
  }
  if (!candidate_) return;
  const ChildEnd& end = candidate_->end();
  verdict_.cpu_seconds += end.cpu_seconds + end.builds.cpu_seconds;
  verdict_.log_tail = end.log;
  verdict_.headers = end.builds.headers;
  verdict_.build = {end.builds.seconds, end.builds.cpu_seconds, end.builds.cache, end.builds.log};
  verdict_.stages_ms["build"] = end.builds.seconds * 1e3;
  candidate_.reset();
}

}  // namespace kz::keck
