#include "corpus/split.h"

#include "base/hash.h"
#include "base/text.h"

namespace kz::corpus {

std::string sequence_of(const std::vector<std::string>& apis) { return join(apis, ">"); }

int bucket_of(std::string_view sequence) { return static_cast<int>(xxhash64(sequence, 0) % 10); }

bool is_held_out(std::string_view sequence) {
  return sequence.find('>') != std::string_view::npos && bucket_of(sequence) < 2;
}

std::string split_of(std::string_view sequence) { return is_held_out(sequence) ? "heldout" : "open"; }

}  // namespace kz::corpus
