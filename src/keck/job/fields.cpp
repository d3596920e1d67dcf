#include "keck/job/fields.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace kz::keck {
namespace {

std::string kilobytes(size_t bytes) {
  return bytes >= (1u << 20) ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes) + " bytes";
}

}  // namespace

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) error_ = Error{"request", (path_.empty() ? "the body" : path_) + " must be a JSON object"};
}

void Fields::problem(const char* name, const std::string& what) {
  if (!error_) error_ = Error{"request", "field \"" + path_ + name + "\" " + what};
}

const Json* Fields::find(const char* name) {
  known_.emplace_back(name);
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::string Fields::text(const char* name, std::string fallback, size_t limit_bytes) {
  const Json* value = find(name);
  if (!value) return fallback;
  if (!value->is_string()) return problem(name, "must be a string"), fallback;
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > limit_bytes) {
    problem(name, "has " + std::to_string(text.size()) + " bytes; the limit is " + kilobytes(limit_bytes));
    return fallback;
  }
  return text;
}

std::string Fields::required_text(const char* name, size_t limit_bytes) {
  std::string value = text(name, "", limit_bytes);
  if (value.empty()) problem(name, "is required and must not be empty");
  return value;
}

std::string Fields::choice(const char* name, std::string fallback, const std::vector<std::string>& allowed) {
  const std::string value = text(name, fallback, 64);
  if (value == fallback || std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  problem(name, "must be one of " + join(allowed, ", ") + ", not \"" + value + "\"");
  return fallback;
}

bool Fields::flag(const char* name, bool fallback) {
  const Json* value = find(name);
  if (!value) return fallback;
  if (!value->is_boolean()) return problem(name, "must be true or false"), fallback;
  return value->get<bool>();
}

double Fields::number(const char* name, double fallback, double low, double high) {
  const Json* value = find(name);
  if (!value) return fallback;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    problem(name, "must be a number from " + Json(low).dump() + " to " + Json(high).dump());
    return fallback;
  }
  return number;
}

int64_t Fields::integer(const char* name, int64_t fallback, int64_t low, int64_t high) {
  const Json* value = find(name);
  if (!value) return fallback;
  const bool fits = value->is_number_integer() &&
                    !(value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
  if (!fits || value->get<int64_t>() < low || value->get<int64_t>() > high) {
    problem(name, "must be an integer from " + std::to_string(low) + " to " + std::to_string(high));
    return fallback;
  }
  return value->get<int64_t>();
}

std::optional<uint64_t> Fields::unsigned_integer(const char* name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number_unsigned())
    return problem(name, "must be an integer from 0 to 18446744073709551615"), std::nullopt;
  return value->get<uint64_t>();
}

std::vector<std::string> Fields::texts(const char* name, size_t limit_count, size_t limit_bytes) {
  const Json* value = find(name);
  if (!value) return {};
  const bool good = value->is_array() && value->size() <= limit_count &&
                    std::all_of(value->begin(), value->end(), [&](const Json& item) {
                      return item.is_string() && item.get_ref<const std::string&>().size() <= limit_bytes;
                    });
  if (good) return value->get<std::vector<std::string>>();
  problem(name, "must be an array of at most " + std::to_string(limit_count) + " strings of at most " +
                    std::to_string(limit_bytes) + " bytes");
  return {};
}

const Json* Fields::object(const char* name) {
  const Json* value = find(name);
  if (value && !value->is_object()) return problem(name, "must be an object"), nullptr;
  return value;
}

void Fields::note(const Status& status) {
  if (!status && !error_) error_ = status.error();
}

Status Fields::finish() const {
  if (error_) return tl::unexpected(*error_);
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const std::string near = nearest(name, known_);
    std::string shown = name.substr(0, 80);
    return fail("request",
                "unknown field \"" + path_ + shown + "\"" +
                    (near.empty() ? "; known are " + join(known_, ", ") : "; did you mean \"" + path_ + near + "\"?"));
  }
  return {};
}

}  // namespace kz::keck
