// Answers that compute nothing. A task that accepts one of them cannot tell a kernel from no kernel (threats.md, P10).
#pragma once

#include <string>
#include <vector>

#include "keck/judge/protocol.h"

namespace kz::keck {

struct NullCandidate {
  std::string name;  // "zeros", "a constant", "a copy of an input", "every second element"
  Value value;
};

// Made from the reference's own output, so that structure, shapes and dtypes fit.
std::vector<NullCandidate> null_candidates(const Value& expected, const Value& inputs);

}  // namespace kz::keck
