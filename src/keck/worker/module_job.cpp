#include "keck/worker/module_job.h"

#include "base/random.h"
#include "keck/worker/source_check.h"

namespace kz::keck {
namespace {

constexpr double kFactsSeconds = 30;
constexpr double kJudgeSeconds = 30;
constexpr size_t kMaxFacts = 4 << 20;

ModuleReport rejected(ModuleReport report, std::string stage, std::string reason, std::string message) {
  report.outcome = Outcome::kFail;
  report.stage = std::move(stage);
  report.reason = std::move(reason);
  report.message = std::move(message);
  return report;
}

// Where the judge's word on a module belongs. Its audit of tasks says in words what it found.
std::string stage_of(const JudgeReport& judged) {
  const auto says = [&](const char* words) { return judged.message.find(words) != std::string::npos; };
  if (judged.outcome == Outcome::kFail || says("two runs")) return "deterministic";
  if (says("ill-conditioned")) return "conditioned";
  if (says("inputs")) return "inputs";
  if (judged.reason == "too_large" || judged.reason == "reference_timeout") return "limits";
  return "run";
}

// The module as its own kernel: a task at which it fails itself, or at which the judge's audit of tasks balks, is none.
Result<ModuleReport> ask_judge(Parts& parts, ModuleReport report, const ModuleRequest& request,
                               const std::atomic<bool>& cancelled) {
  const std::string key = task_key(report.canonical_source);
  KZ_ASSIGN(auto judge, parts.judges->take(cancelled));
  KZ_ASSIGN(auto reference, parts.references->take(key, report.canonical_source, kFactsSeconds, cancelled));
  if (reference.defect) return rejected(std::move(report), "run", reference.defect->reason, reference.defect->message);
  KZ_ASSIGN(auto twin, parts.start_child());
  const Json load = {
      {"role", "candidate"}, {"source", report.canonical_source + "\nModelNew = Model\n"}, {"backend", "cpp"}};
  auto loaded = twin->load(load, kFactsSeconds, cancelled);
  if (!loaded) return tl::unexpected(loaded.error());
  JudgeJob job;
  job.task_key = key;
  job.seed = request.seed;
  job.timing = false;
  job.deadline_s = kJudgeSeconds;
  auto judged = judge->run(job, {reference.child->judge_child(), twin->judge_child(), {}}, {}, cancelled);
  parts.references->give_back(key, std::move(reference.child), judged && judged->reference_clean);
  if (!judged) return tl::unexpected(judged.error());
  if (judged->outcome == Outcome::kPass) return report;
  if (judged->outcome == Outcome::kUnscored && judged->stage == Stage::kHost) return fail("host", judged->message);
  return rejected(std::move(report), stage_of(*judged), judged->reason, judged->message);
}

}  // namespace

Result<ModuleReport> run_module_job(Parts& parts, const ModuleRequest& request, const std::atomic<bool>& cancelled) {
  if (auto fault = check_source(request.module)) return rejected({}, "format", fault->reason, fault->message);
  const GateRules rules;
  KZ_ASSIGN(auto child, parts.start_child());
  const Json load = {{"role", "module"},
                     {"source", request.module},
                     {"apis", parts.names.resolve(request.apis)},
                     {"stop_ms", rules.max_run_ms},
                     {"stop_bytes", rules.max_bytes},
                     {"seed", request.seed.value_or(secret_seed()) >> 2}};
  auto facts = child->load(load, kFactsSeconds, cancelled, kMaxFacts);
  if (facts) {
    ModuleReport report = decide(*facts, request, parts.names, rules);
    child.reset();
    if (report.outcome != Outcome::kPass) return report;
    return ask_judge(parts, std::move(report), request, cancelled);
  }
  const std::string code = facts.error().code;
  if (code == "host" || code == "cancelled") return tl::unexpected(facts.error());
  if (code == "timeout") return rejected({}, "limits", "timeout", "the module " + facts.error().message);
  if (code == "protocol") return rejected({}, "run", "protocol", facts.error().message);
  const ChildEnd& end = child->end();
  const bool memory = end.how == ChildEnd::How::kMemory;
  return rejected({}, memory ? "limits" : "run", reason_of(end), "the module's process " + describe(end));
}

}  // namespace kz::keck
