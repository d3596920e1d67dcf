#include "keck/job/answers.h"

namespace kz::keck {

Answer answer_for(Answer answer, const std::string& id, bool shared, double queue_ms) {
  if (auto* verdict = std::get_if<Verdict>(&answer)) {
    verdict->id = id;
    verdict->stages_ms["queue"] = queue_ms;
    if (shared) verdict->from_cache = true, verdict->cpu_seconds = 0;
  } else {
    std::get<ModuleReport>(answer).id = id;
  }
  return answer;
}

Result<Answer> answer_from_text(JobKind kind, const std::string& text) {
  KZ_ASSIGN(const Json json, parse_json(text, "result cache"));
  if (kind == JobKind::kModule) return module_report_from_json(json).map([](auto&& r) { return Answer(r); });
  return verdict_from_json(json).map([](auto&& v) { return Answer(v); });
}

bool cacheable(const Answer& answer) {
  return std::visit([](const auto& a) { return a.outcome != Outcome::kUnscored && a.reason != "timeout"; }, answer);
}

Answer host_failure(JobKind kind, const std::string& reason, const std::string& message) {
  if (kind == JobKind::kModule) {
    ModuleReport report;
    report.stage = "host", report.reason = reason, report.message = message;
    return report;
  }
  Verdict verdict;
  verdict.stage = Stage::kHost, verdict.reason = reason, verdict.message = message;
  return verdict;
}

}  // namespace kz::keck
