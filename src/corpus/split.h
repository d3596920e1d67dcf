// What is for evaluation only. The key is the operator sequence, so two modules that differ in constants, spellings or
// sizes are on the same side (docs/architecture.md, part 3).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kz::corpus {

// Canonical API names in order of execution, joined by '>'.
std::string sequence_of(const std::vector<std::string>& apis);

int bucket_of(std::string_view sequence);  // xxhash64(sequence, 0) % 10

// Buckets 0 and 1 are held out. A sequence of one operator is always open: what is held out are compositions.
bool is_held_out(std::string_view sequence);
std::string split_of(std::string_view sequence);  // "heldout" | "open"

}  // namespace kz::corpus
