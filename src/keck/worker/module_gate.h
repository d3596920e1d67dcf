// The gate's decision about a Proposer's module (design.md, part 6; threats.md, part 4). Facts come from a sandboxed
// child (python/keck_worker/facts.py); what they mean is written here, once. Pure functions of JSON.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "keck/job/request.h"
#include "keck/job/verdict.h"

namespace kz::keck {

// Bounds of the gate. Distances are largest element-wise differences over the element's own magnitude plus its tensor's
// rms.
struct GateRules {
  double max_run_ms = 250;                  // of one forward pass, the better of two
  uint64_t max_bytes = 128ULL << 20;        // inputs and outputs
  uint64_t max_state_bytes = 256ULL << 20;  // parameters and buffers
  double max_repeat = 1e-6;                 // between runs that must agree
  double min_changed = 0.5;                 // share of float input elements that another seed changes
  double min_distinct = 32;                 // values in a float input, where it has that many elements
  double min_moved = 1e-2;                  // of the output, when an input or a call's result is another
  double min_idle = 1e-4;                   // of the output, when a call is replaced by its argument
  double max_rounding = 1e-4;               // from fp64, and under inputs that are one ulp off
};

// Spelling to canonical name and the entries themselves, as the zygote gets them. Error "config": missing or malformed.
struct ApiNames {
  Json entries = Json::array();
  std::unordered_map<std::string, std::string> canonical;
  static Result<ApiNames> load(const fs::path& catalogue);
  std::vector<std::string> resolve(const std::vector<std::string>& spellings) const;  // unknown ones stay as they are
};

// The report with outcome kPass or kFail; canonical source, hash, APIs and operators are filled as far as they are
// known. The judge has the last word on a pass (module_job.cpp).
ModuleReport decide(const Json& facts, const ModuleRequest& request, const ApiNames& names,
                    const GateRules& rules = {});

}  // namespace kz::keck
