// Fields of JSON that a child wrote: absent or of another type is the fallback, never an exception.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace kz::keck {

std::string text_field(const Json& json, const char* key, const std::string& fallback = "");
bool bool_field(const Json& json, const char* key);
double number_field(const Json& json, const char* key);
Json object_field(const Json& json, const char* key);  // {} unless it is an object
std::vector<std::string> texts_field(const Json& json, const char* key);
// A distance of the gate: a number, "inf" or "nan"; NaN when it is neither.
double distance_value(const Json& value);
double distance_field(const Json& json, const char* key);

}  // namespace kz::keck
