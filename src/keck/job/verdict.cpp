#include "keck/job/verdict.h"

#include <array>

namespace kz::keck {
namespace {

constexpr std::array<std::string_view, 3> kOutcomes = {"pass", "fail", "unscored"};
constexpr std::array<std::string_view, 9> kStages = {"",        "format", "build", "load", "run",
                                                     "compare", "policy", "task",  "host"};
constexpr std::array<std::string_view, 5> kDecisions = {"", "faster", "slower", "same", "ambiguous"};

// Reading tolerates fields it does not know (a newer server) and throws nlohmann's exceptions on wrong types; the
// public functions turn these into Errors.
template <typename Enum, size_t N>
Enum word_to(const Json& json, const char* name, const std::array<std::string_view, N>& words) {
  const auto& text = json.at(name).get_ref<const std::string&>();
  for (size_t i = 0; i < N; ++i)
    if (words[i] == text) return static_cast<Enum>(i);
  throw std::out_of_range(std::string("\"") + name + "\" has the unknown value \"" + text.substr(0, 40) + "\"");
}

double number(const Json& json, const char* name) {
  const auto it = json.find(name);
  return it == json.end() || it->is_null() ? 0.0 : number_from_json(*it);
}

std::string text(const Json& json, const char* name) { return json.value(name, std::string()); }

bool present(const Json& json, const char* name) {
  const auto it = json.find(name);
  return it != json.end() && !it->is_null();
}

Json to_json(const Spread& spread) {
  return {{"median", json_number(spread.median)},
          {"iqr", json_number(spread.iqr)},
          {"min", json_number(spread.min)},
          {"n", spread.n}};
}

Spread spread_from(const Json& json) {
  return {number(json, "median"), number(json, "iqr"), number(json, "min"), json.value("n", 0)};
}

Json to_json(const Correctness& c) {
  Json json = {{"trials", c.trials},
               {"passed", c.passed},
               {"max_abs_error", json_number(c.max_abs_error)},
               {"max_rel_error", json_number(c.max_rel_error)},
               {"tolerance", json_number(c.tolerance)},
               {"wrong_share", json_number(c.wrong_share)},
               {"check", c.check},
               {"first_mismatch", nullptr}};
  if (const auto& m = c.first_mismatch)
    json["first_mismatch"] = {{"output", m->output},
                              {"index", m->index},
                              {"expected", json_number(m->expected)},
                              {"got", json_number(m->got)}};
  return json;
}

Correctness correctness_from(const Json& json) {
  Correctness c;
  c.trials = json.value("trials", 0);
  c.passed = json.value("passed", 0);
  c.max_abs_error = number(json, "max_abs_error");
  c.max_rel_error = number(json, "max_rel_error");
  c.tolerance = number(json, "tolerance");
  c.wrong_share = number(json, "wrong_share");
  c.check = text(json, "check");
  if (present(json, "first_mismatch")) {
    const Json& m = json["first_mismatch"];
    c.first_mismatch = Mismatch{m.value("output", 0), m.value("index", std::vector<int64_t>()), number(m, "expected"),
                                number(m, "got")};
  }
  return c;
}

Json to_json(const Timing& t) {
  return {{"candidate_ms", to_json(t.candidate_ms)},
          {"eager_ms", to_json(t.eager_ms)},
          {"latency", nullptr},
          {"events", nullptr},
          {"compile_ms", nullptr},
          {"speedup", json_number(t.speedup)},
          {"ci95", {json_number(t.ci95[0]), json_number(t.ci95[1])}},
          {"decision", to_string(t.decision)},
          {"resolution_us", json_number(t.resolution_us)},
          {"first_call_ms", json_number(t.first_call_ms)},
          {"sm_clock_mhz", nullptr},
          {"method", t.method}};
}

Timing timing_from(const Json& json) {
  Timing t;
  t.candidate_ms = spread_from(json.at("candidate_ms"));
  t.eager_ms = spread_from(json.at("eager_ms"));
  t.speedup = number(json, "speedup");
  const Json& ci = json.at("ci95");
  t.ci95[0] = number_from_json(ci.at(0));
  t.ci95[1] = number_from_json(ci.at(1));
  t.decision = word_to<Decision>(json, "decision", kDecisions);
  t.resolution_us = number(json, "resolution_us");
  t.first_call_ms = number(json, "first_call_ms");
  t.method = text(json, "method");
  return t;
}

Json to_json(const BuildInfo& b) {
  return {{"seconds", json_number(b.seconds)},
          {"cpu_seconds", json_number(b.cpu_seconds)},
          {"cache", b.cache},
          {"registers", nullptr},
          {"spills", nullptr},
          {"log", b.log}};
}

Verdict verdict_from(const Json& json) {
  Verdict v;
  v.id = text(json, "id");
  v.outcome = word_to<Outcome>(json, "outcome", kOutcomes);
  v.stage = word_to<Stage>(json, "stage", kStages);
  v.reason = text(json, "reason");
  v.message = text(json, "message");
  v.headers = text(json, "headers");
  if (present(json, "correctness")) v.correctness = correctness_from(json["correctness"]);
  if (present(json, "timing")) v.timing = timing_from(json["timing"]);
  const Json& policy = json.at("policy");
  v.accepted = policy.at("accepted").get<bool>();
  v.labels = policy.value("labels", std::vector<std::string>());
  if (present(json, "build")) {
    const Json& build = json["build"];
    v.build = {number(build, "seconds"), number(build, "cpu_seconds"), text(build, "cache"), text(build, "log")};
  }
  if (present(json, "stages_ms"))
    for (const auto& [stage, ms] : json["stages_ms"].items()) v.stages_ms[stage] = number_from_json(ms);
  v.backend = text(json, "backend");
  if (present(json, "device")) v.device = text(json["device"], "name");
  v.sandbox = text(json, "sandbox");
  v.seed = json.value("seed", uint64_t{0});
  v.log_tail = text(json, "log_tail");
  v.from_cache = json.value("from_cache", false);
  v.cpu_seconds = number(json, "cpu_seconds");
  return v;
}

ModuleReport report_from(const Json& json) {
  ModuleReport r;
  r.id = text(json, "id");
  r.outcome = word_to<Outcome>(json, "outcome", kOutcomes);
  r.stage = text(json, "stage");
  r.reason = text(json, "reason");
  r.message = text(json, "message");
  r.apis = json.value("apis", std::vector<std::string>());
  r.operators = json.value("operators", std::vector<std::string>());
  r.canonical_source = text(json, "canonical_source");
  r.canonical_hash = text(json, "canonical_hash");
  r.run_ms = number(json, "run_ms");
  r.bytes = json.value("bytes", uint64_t{0});
  return r;
}

}  // namespace

std::string_view to_string(Outcome outcome) { return kOutcomes[static_cast<size_t>(outcome)]; }
std::string_view to_string(Stage stage) { return kStages[static_cast<size_t>(stage)]; }
std::string_view to_string(Decision decision) { return kDecisions[static_cast<size_t>(decision)]; }

Json to_json(const Verdict& v) {
  Json stages = Json::object();
  for (const auto& [stage, ms] : v.stages_ms) stages[stage] = json_number(ms);
  return {{"id", v.id},
          {"outcome", to_string(v.outcome)},
          {"stage", to_string(v.stage)},
          {"reason", v.reason},
          {"message", v.message},
          {"headers", v.headers},
          {"correctness", v.correctness ? to_json(*v.correctness) : Json()},
          {"timing", v.timing ? to_json(*v.timing) : Json()},
          {"kernels", nullptr},
          {"policy", {{"accepted", v.accepted}, {"labels", v.labels}}},
          {"build", to_json(v.build)},
          {"stages_ms", std::move(stages)},
          {"backend", v.backend},
          {"device", {{"name", v.device}}},
          {"sandbox", v.sandbox},
          {"seed", v.seed},
          {"log_tail", v.log_tail},
          {"from_cache", v.from_cache},
          {"cpu_seconds", json_number(v.cpu_seconds)}};
}

Result<Verdict> verdict_from_json(const Json& json) {
  try {
    return verdict_from(json);
  } catch (const std::exception& e) {
    return fail("protocol", std::string("not a verdict: ") + e.what());
  }
}

Json to_json(const ModuleReport& r) {
  return {{"id", r.id},
          {"outcome", to_string(r.outcome)},
          {"stage", r.stage},
          {"reason", r.reason},
          {"message", r.message},
          {"apis", r.apis},
          {"operators", r.operators},
          {"canonical_source", r.canonical_source},
          {"canonical_hash", r.canonical_hash},
          {"run_ms", json_number(r.run_ms)},
          {"bytes", r.bytes}};
}

Result<ModuleReport> module_report_from_json(const Json& json) {
  try {
    return report_from(json);
  } catch (const std::exception& e) {
    return fail("protocol", std::string("not a module report: ") + e.what());
  }
}

}  // namespace kz::keck
