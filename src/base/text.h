// Small text helpers that several folders need.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kz {

// The candidate nearest to `word` by edit distance, or "" if none is near enough to be what was meant.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
std::vector<std::string> split(std::string_view text, char separator);  // "" gives no parts
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);
bool valid_utf8(std::string_view text);

}  // namespace kz
