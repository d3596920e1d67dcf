#include "keck/worker/module_gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "keck/worker/fields.h"

namespace kz::keck {
namespace {

// They arrange or hold; a list that asks for others may use them.
constexpr std::array kFree = {"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.Identity", "torch.nn.Parameter"};
// They never change values, so replacing them by their argument says nothing.
constexpr std::array kKeepsValues = {
    "torch.Tensor.contiguous", "torch.Tensor.view", "torch.Tensor.expand", "torch.reshape",   "torch.clone",
    "torch.broadcast_to",      "torch.flatten",     "torch.squeeze",       "torch.unsqueeze", "torch.nn.Identity"};

template <typename Array>
bool listed(const Array& array, const std::string& name) {
  return std::find(array.begin(), array.end(), name) != array.end();
}

// One rule: where it belongs, and the fault if there is one.
struct Fault {
  std::string stage, reason, message;
};
using Found = std::optional<Fault>;

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

Found parses(const Json& facts) {
  if (bool_field(facts, "parsed")) return {};
  const Json error = object_field(facts, "parse_error");
  return Fault{
      "parse", "syntax_error",
      "line " + std::to_string(static_cast<int>(number_field(error, "line"))) + ": " + text_field(error, "message")};
}

Found well_formed(const Json& facts) {
  const auto missing = texts_field(facts, "missing");
  if (!missing.empty())
    return Fault{"format", missing.front() == "Model" ? "no_model" : "no_inputs",
                 "the module defines no " + join(missing)};
  const Json forbidden = facts.value("forbidden", Json::array());
  if (!forbidden.is_array() || forbidden.empty()) return {};
  const Json& first = forbidden.front();
  const std::string code = text_field(first, "code"), what = text_field(first, "what");
  const std::string line = "line " + std::to_string(static_cast<int>(number_field(first, "line"))) + ": ";
  if (code == "torch_name" || code == "method")
    return Fault{"apis", "unknown_api", line + what + " is not in the catalogue"};
  return Fault{"format", "forbidden_" + code, line + what};
}

// M6, first half: the AST uses exactly what was asked.
Found asked_exactly(const std::vector<std::string>& used, const std::vector<std::string>& asked) {
  if (asked.empty()) {
    if (used.empty()) return Fault{"apis", "no_api", "the module calls no Torch API"};
    return {};
  }
  std::vector<std::string> missing, extra;
  for (const auto& name : asked)
    if (!listed(used, name)) missing.push_back(name);
  for (const auto& name : used)
    if (!listed(asked, name) && !listed(kFree, name)) extra.push_back(name);
  if (!missing.empty()) return Fault{"apis", "missing_api", "not used: " + join(missing)};
  if (!extra.empty()) return Fault{"apis", "extra_api", "not asked for: " + join(extra)};
  return {};
}

Found runs(const Json& ran) {
  const Json error = object_field(ran, "error");
  if (error.empty()) return {};
  return Fault{text_field(error, "step", "run"), text_field(error, "reason", "exception"),
               text_field(error, "message")};
}

// M6, second half: each asked call ran, and its result and its being there matter.
Found calls_matter(const Json& ran, const std::vector<std::string>& asked, const GateRules& rules) {
  const Json neutral = object_field(ran, "neutral");
  for (const std::string& name : asked) {
    if (listed(kFree, name)) continue;
    const Json report = object_field(neutral, name.c_str());
    if (number_field(report, "calls") < 1) return Fault{"apis", "not_called", name + " is in the text but never runs"};
    if (distance_field(report, "noise") < rules.min_moved)
      return Fault{"apis", "dead_call", "the output does not depend on what " + name + " returns"};
    const bool has_identity = report.contains("identity") && !report["identity"].is_null();
    if (has_identity && !listed(kKeepsValues, name) && distance_field(report, "identity") < rules.min_idle)
      return Fault{"apis", "idle_call", "the output is the same without " + name};
  }
  return {};
}

Found finite(const Json& ran) {
  if (number_field(ran, "outputs") < 1) return Fault{"run", "no_output", "forward returns no tensor"};
  if (bool_field(ran, "finite")) return {};
  return Fault{"finite", "non_finite", "the output holds NaN or Inf"};
}

// M2.
Found deterministic(const Json& ran, const GateRules& rules) {
  if (!(distance_field(ran, "again") <= rules.max_repeat))
    return Fault{"deterministic", "state", "a second call gives another output"};
  if (!(distance_field(ran, "fresh") <= rules.max_repeat))
    return Fault{"deterministic", "not_repeatable", "a fresh module with the same seed gives another output"};
  if (!(distance_field(ran, "other_rng") <= rules.max_repeat))
    return Fault{"deterministic", "random", "the output depends on the random number generator"};
  return {};
}

// M3.
Found inputs_vary(const Json& ran, const GateRules& rules) {
  const Json inputs = object_field(ran, "inputs");
  if (number_field(inputs, "tensors") < 1) return Fault{"inputs", "no_inputs", "get_inputs gives no tensor"};
  const double changed = number_field(inputs, "changed");
  if (changed <= 0) return Fault{"inputs", "fixed_inputs", "another seed gives the same inputs"};
  const double enough = std::min(rules.min_distinct, std::max(1.0, number_field(inputs, "count") / 2));
  if (number_field(inputs, "distinct") < enough)
    return Fault{"inputs", "few_values", "an input is drawn from too few values"};
  if (changed < rules.min_changed) return Fault{"inputs", "fixed_inputs", "another seed gives mostly the same inputs"};
  const Json depends = ran.value("depends", Json::array());
  for (size_t i = 0; depends.is_array() && i < depends.size(); ++i)
    if (!(distance_value(depends[i]) >= rules.min_moved))
      return Fault{"inputs", "input_ignored", "the output does not depend on input " + std::to_string(i)};
  return {};
}

// M1. A distance below zero: fp64 does not run, the judge decides with fp32 alone.
Found conditioned(const Json& ran, const GateRules& rules) {
  if (!(distance_field(ran, "wide") <= rules.max_rounding))
    return Fault{"conditioned", "ill_conditioned", "rounding and the order of sums change the output too much"};
  if (!(distance_field(ran, "ulp") <= rules.max_rounding))
    return Fault{"conditioned", "ill_conditioned", "inputs one unit in the last place off change the output too much"};
  return {};
}

// M4.
Found limits(const Json& ran, const GateRules& rules) {
  if (number_field(ran, "bytes") > static_cast<double>(rules.max_bytes) ||
      number_field(ran, "state_bytes") > static_cast<double>(rules.max_state_bytes))
    return Fault{"limits", "too_large", "inputs, outputs or weights are too large"};
  if (number_field(ran, "run_ms") > rules.max_run_ms)
    return Fault{"limits", "too_slow",
                 "one call takes " + std::to_string(static_cast<int>(number_field(ran, "run_ms"))) + " ms"};
  return {};
}

}  // namespace

Result<ApiNames> ApiNames::load(const fs::path& catalogue) {
  KZ_ASSIGN(const std::string text, read_file(catalogue));
  KZ_ASSIGN(const Json file, parse_json(text, catalogue.string()));
  ApiNames names;
  const auto bad = [&](const char* what) { return fail("config", catalogue.string() + ": " + what); };
  if (!file.is_object() || !file.contains("apis") || !file["apis"].is_array()) return bad("no array 'apis'");
  for (const Json& entry : file["apis"]) {
    const std::string name = text_field(entry, "name");
    if (name.empty() || !entry.contains("aliases")) return bad("an entry without name or aliases");
    names.canonical[name] = name;
    for (const std::string& alias : texts_field(entry, "aliases")) names.canonical.emplace(alias, name);
    names.entries.push_back({{"name", name}, {"aliases", entry["aliases"]}, {"kind", text_field(entry, "kind")}});
  }
  return names;
}

std::vector<std::string> ApiNames::resolve(const std::vector<std::string>& spellings) const {
  std::vector<std::string> out;
  for (const std::string& spelling : spellings) {
    const auto it = canonical.find(spelling);
    out.push_back(it == canonical.end() ? spelling : it->second);
  }
  return out;
}

ModuleReport decide(const Json& facts, const ModuleRequest& request, const ApiNames& names, const GateRules& rules) {
  ModuleReport report;
  report.outcome = Outcome::kPass;
  report.apis = texts_field(facts, "apis");
  report.canonical_source = text_field(facts, "canonical_source");
  report.canonical_hash = text_field(facts, "canonical_hash");
  const Json ran = object_field(facts, "ran");
  report.operators = texts_field(ran, "operators");
  report.run_ms = number_field(ran, "run_ms");
  report.bytes = static_cast<uint64_t>(std::clamp(number_field(ran, "bytes"), 0.0, 1e18));

  const std::vector<std::string> asked = names.resolve(request.apis);
  const auto& watched = asked.empty() ? report.apis : asked;
  Found fault = parses(facts);
  if (!fault) fault = well_formed(facts);
  if (!fault) fault = asked_exactly(report.apis, asked);
  if (!fault && ran.empty()) fault = Fault{"run", "not_run", "the module did not run"};
  if (!fault) fault = runs(ran);
  if (!fault) fault = limits(ran, rules);
  if (!fault) fault = finite(ran);
  if (!fault) fault = deterministic(ran, rules);
  if (!fault) fault = inputs_vary(ran, rules);
  if (!fault) fault = calls_matter(ran, watched, rules);
  if (!fault) fault = conditioned(ran, rules);
  if (fault) {
    report.outcome = Outcome::kFail;
    report.stage = fault->stage;
    report.reason = fault->reason;
    report.message = fault->message;
  }
  return report;
}

}  // namespace kz::keck
