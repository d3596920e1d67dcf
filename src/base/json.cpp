#include "base/json.h"

#include <cmath>
#include <limits>

namespace kz {
namespace {

// Depth is checked before parsing: the parser recurses, and a foreign body must not choose how deep.
bool too_deep(std::string_view text, int limit) {
  int depth = 0;
  bool in_string = false, escaped = false;
  for (const char c : text) {
    if (in_string) {
      if (escaped)
        escaped = false;
      else if (c == '\\')
        escaped = true;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > limit) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view where) {
  constexpr int kMaxDepth = 64;
  if (too_deep(text, kMaxDepth)) return fail("json", std::string(where) + ": JSON nested deeper than 64 levels");
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    return fail("json", std::string(where) + ": not valid JSON at byte " + std::to_string(e.byte));
  }
}

Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_from_json(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) {
    const auto& s = value.get_ref<const std::string&>();
    if (s == "inf") return std::numeric_limits<double>::infinity();
    if (s == "-inf") return -std::numeric_limits<double>::infinity();
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace kz
