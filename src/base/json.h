// JSON for the edges of the program. Bad JSON is a Result, never an exception that escapes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kz {

using Json = nlohmann::json;

// `where` names the file or request for the error ("config.json", "POST /v1/evaluations"). Nesting deeper than 64 is
// refused.
Result<Json> parse_json(std::string_view text, std::string_view where);

// A number that JSON cannot hold (NaN, Inf) becomes the string "nan", "inf" or "-inf".
Json json_number(double value);
double number_from_json(const Json& value);  // the inverse; NaN for anything else

// Compact dump in which invalid UTF-8 is replaced by U+FFFD, so it never throws.
std::string dump_json(const Json& value, int indent = -1);

}  // namespace kz
