#include "keck/worker/log_capture.h"

#include <algorithm>

namespace kz::keck {

void LogCapture::append(std::string_view bytes) {
  total_ += bytes.size();
  const size_t n = std::min(bytes.size(), head_limit_ - head_.size());
  head_ += bytes.substr(0, n);
  bytes.remove_prefix(n);
  if (bytes.size() > tail_limit_) bytes.remove_prefix(bytes.size() - tail_limit_);
  tail_ += bytes;
  if (tail_.size() > 2 * tail_limit_) tail_.erase(0, tail_.size() - tail_limit_);
}

std::string LogCapture::text() const {
  const std::string_view tail = std::string_view(tail_).substr(tail_.size() - std::min(tail_.size(), tail_limit_));
  const uint64_t left_out = total_ - head_.size() - tail.size();
  std::string out = head_;
  if (left_out > 0) out += "\n[... " + std::to_string(left_out) + " bytes left out ...]\n";
  return out.append(tail);
}

}  // namespace kz::keck
