// Head and tail of a stream of any length: what a verdict shows of a candidate's own output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kz::keck {

class LogCapture {
 public:
  explicit LogCapture(size_t head = 2048, size_t tail = 4096) : head_limit_(head), tail_limit_(tail) {}
  void append(std::string_view bytes);
  uint64_t total() const { return total_; }
  // Both parts, with a line between them that says how many bytes are left out.
  std::string text() const;

 private:
  size_t head_limit_, tail_limit_;
  std::string head_, tail_;  // tail_ is trimmed lazily: at most twice its limit
  uint64_t total_ = 0;
};

}  // namespace kz::keck
