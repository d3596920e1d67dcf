// Index outputs: argmax, topk, sort and their kin may name another place that holds the same value (threats.md, C9).
#pragma once

#include <vector>

#include "keck/judge/protocol.h"

namespace kz::keck {

// Whether integer tensor `got` points at the same values as `expected` does, along some dimension of one of the inputs,
// wherever they differ, without naming a place twice in a line that it changed. Values must carry bytes.
bool same_by_gathered_value(const Value& expected, const Value& got, const std::vector<const Value*>& sources);

}  // namespace kz::keck
