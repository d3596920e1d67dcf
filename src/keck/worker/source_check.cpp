#include "keck/worker/source_check.h"

namespace kz::keck {
namespace {

// Length of the well-formed sequence at the start of `s` (Unicode 15, table 3-7), or 0.
size_t sequence_length(std::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned a = byte(0), b = byte(1);
  if (a < 0x80) return 1;
  if (a >= 0xC2 && a <= 0xDF) return follows(1) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF) {
    const bool second = a == 0xE0 ? b >= 0xA0 && b <= 0xBF : a == 0xED ? b >= 0x80 && b <= 0x9F : follows(1);
    return second && follows(2) ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    const bool second = a == 0xF0 ? b >= 0x90 && b <= 0xBF : a == 0xF4 ? b >= 0x80 && b <= 0x8F : follows(1);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

size_t first_bad_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t n = sequence_length(text.substr(i, 4));
    if (n == 0) return i;
    i += n;
  }
  return std::string_view::npos;
}

std::optional<SourceFault> check_source(std::string_view source) {
  if (source.size() > kMaxSourceBytes)
    return SourceFault{"too_large", "the source has " + std::to_string(source.size()) + " bytes, the limit is " +
                                        std::to_string(kMaxSourceBytes)};
  if (const size_t at = first_bad_utf8(source); at != std::string_view::npos)
    return SourceFault{"bad_encoding", "the source is not UTF-8 at byte " + std::to_string(at)};
  if (const size_t at = source.find('\0'); at != std::string_view::npos)
    return SourceFault{"bad_encoding", "the source has a NUL at byte " + std::to_string(at)};
  if (source.find_first_not_of(" \t\r\n") == std::string_view::npos) return SourceFault{"empty", "the source is empty"};
  return std::nullopt;
}

}  // namespace kz::keck
