// What a program writes, kept within a bound: the first half and the last half of it, and how much was dropped between.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kz::keck::sandbox {

class Capture {
 public:
  explicit Capture(uint64_t limit) : half_(limit / 2) {}
  void add(std::string_view bytes);
  std::string text() const;

 private:
  uint64_t half_;
  uint64_t dropped_ = 0;
  std::string head_, tail_;
};

}  // namespace kz::keck::sandbox
