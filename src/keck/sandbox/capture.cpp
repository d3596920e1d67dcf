#include "keck/sandbox/capture.h"

#include <algorithm>

namespace kz::keck::sandbox {

void Capture::add(std::string_view bytes) {
  const size_t room = half_ - std::min<uint64_t>(half_, head_.size());
  const size_t first = std::min<size_t>(room, bytes.size());
  head_ += bytes.substr(0, first);
  tail_ += bytes.substr(first);
  // Cut in large steps, so that a flood costs one copy of each byte.
  if (tail_.size() > 2 * half_ + 4096) {
    dropped_ += tail_.size() - half_;
    tail_.erase(0, tail_.size() - half_);
  }
}

std::string Capture::text() const {
  const size_t cut = tail_.size() > half_ ? tail_.size() - half_ : 0;
  const uint64_t dropped = dropped_ + cut;
  if (dropped == 0) return head_ + tail_;
  return head_ + "\n… " + std::to_string(dropped) + " bytes left out …\n" + tail_.substr(cut);
}

}  // namespace kz::keck::sandbox
