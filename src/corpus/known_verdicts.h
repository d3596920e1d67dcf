// Candidates whose verdict is known: right ones from the lowerings, wrong ones by mutations of them and by hand. What
// Keck says of them must be what stands here (data/verdicts).
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace kz::corpus {

struct KnownVerdict {
  std::string id, backend, module, candidate;
  std::string mutation;  // "" for a right one, else what was done
  // Of the verdict. `reason` may name several, "wrong_values|non_finite", where it depends on what lay in memory.
  std::string outcome, stage, reason;
  bool right = false;
};

Json to_json(
    const KnownVerdict& row);  // {id, backend, module, candidate, mutation, expected: {outcome, stage, reason, right}}
Result<KnownVerdict> known_verdict_from_json(const Json& json);

// Whether a verdict (v1 JSON) is the known one; else a line that says where it differs, "" when it agrees.
std::string difference(const KnownVerdict& known, const Json& verdict);

// At least 40 right and 40 wrong ones for "cpp" or "triton"; deterministic.
Result<std::vector<KnownVerdict>> make_known_verdicts(const std::string& backend, uint64_t seed);

}  // namespace kz::corpus
