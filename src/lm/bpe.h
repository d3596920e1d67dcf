// Byte-pair merges over the bytes of one word. Knows ids and ranks, not text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kz::lm {

class Bpe {
 public:
  // `bytes[b]` is the token of the single byte b.
  explicit Bpe(const std::array<int32_t, 256>& bytes) : bytes_(bytes) {}

  // Merges are added in order of rank; a later one for the same pair replaces the earlier.
  void reserve(size_t merges);
  void add_merge(int32_t left, int32_t right, int32_t merged);

  // Appends the tokens of `word` to `out`: always the lowest rank first, the leftmost of equals.
  void encode(std::string_view word, std::vector<int32_t>& out) const;

 private:
  struct Slot {
    uint64_t pair = kEmpty;
    int32_t rank = 0, merged = 0;
  };
  static constexpr uint64_t kEmpty = ~0ULL;
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  const Slot* find(int32_t left, int32_t right) const;
  void grow(size_t slots);
  void encode_long(std::vector<int32_t>& symbols) const;

  std::array<int32_t, 256> bytes_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  size_t used_ = 0;
  int32_t next_rank_ = 0;
};

}  // namespace kz::lm
