#include "keck/worker/fields.h"

#include <cmath>

namespace kz::keck {
namespace {

const Json* find(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto it = json.find(key);
  return it == json.end() ? nullptr : &*it;
}

}  // namespace

std::string text_field(const Json& json, const char* key, const std::string& fallback) {
  const Json* value = find(json, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : fallback;
}

bool bool_field(const Json& json, const char* key) {
  const Json* value = find(json, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

double number_field(const Json& json, const char* key) {
  const Json* value = find(json, key);
  return value != nullptr && value->is_number() ? value->get<double>() : 0;
}

Json object_field(const Json& json, const char* key) {
  const Json* value = find(json, key);
  return value != nullptr && value->is_object() ? *value : Json::object();
}

std::vector<std::string> texts_field(const Json& json, const char* key) {
  std::vector<std::string> out;
  const Json* value = find(json, key);
  if (value == nullptr || !value->is_array()) return out;
  for (const Json& item : *value)
    if (item.is_string()) out.push_back(item.get<std::string>());
  return out;
}

double distance_value(const Json& value) { return number_from_json(value); }

double distance_field(const Json& json, const char* key) {
  const Json* value = find(json, key);
  return value == nullptr ? std::nan("") : distance_value(*value);
}

}  // namespace kz::keck
