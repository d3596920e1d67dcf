// What can be said of a Python source before a process is spent on it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kz::keck {

constexpr size_t kMaxSourceBytes = 1 << 20;

struct SourceFault {
  std::string reason;   // "too_large" "bad_encoding" "empty"
  std::string message;  // where: the offset of the first bad byte
};
// Null: it is UTF-8 without NUL bytes, of a sane size and not blank.
std::optional<SourceFault> check_source(std::string_view source);

// Offset of the first byte that starts no well-formed UTF-8 sequence; npos: none.
size_t first_bad_utf8(std::string_view text);

}  // namespace kz::keck
