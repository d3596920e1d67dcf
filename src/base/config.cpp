#include "base/config.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 1
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "base/text.h"

namespace kz {
namespace {

std::string to_text(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_string<decltype(value)> || toml::is_integer<decltype(value)> ||
                  toml::is_floating_point<decltype(value)> || toml::is_boolean<decltype(value)> ||
                  toml::is_array<decltype(value)>) {
      out << value;
    }
  });
  return out.str();
}

void flatten(const toml::table& table, const std::string& prefix, std::map<std::string, std::string>& out) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table())
      flatten(*inner, name + ".", out);
    else
      out[name] = to_text(node);
  }
}

// A value on its own, as `x = TEXT`.
toml::parse_result parse_value(const std::string& text) { return toml::parse("x = " + text); }

template <typename T>
std::string format_value(const T& value) {
  std::ostringstream out;
  toml::array holder;
  holder.push_back(value);
  out << holder;
  const std::string text = out.str();  // "[ value ]"
  const size_t begin = text.find_first_not_of("[ "), end = text.find_last_not_of("] ");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

template <typename T>
std::string format_list(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& v : values) text += (text.size() > 1 ? ", " : "") + format_value(v);
  return text + "]";
}

}  // namespace

Result<Config> Config::load(const fs::path& path, const std::vector<std::string>& overrides) {
  KZ_ASSIGN(const std::string text, read_file(path, 1 << 20));
  return parse(text, path.string(), overrides);
}

Result<Config> Config::parse(std::string_view toml, std::string_view where, const std::vector<std::string>& overrides) {
  const toml::parse_result parsed = toml::parse(toml, where);
  if (!parsed) {
    std::ostringstream place;
    place << parsed.error().source().begin.line;
    return fail("config", std::string(where) + ":" + place.str() + ": " + std::string(parsed.error().description()));
  }
  Config config;
  config.where_ = where;
  flatten(parsed.table(), "", config.given_);
  for (const std::string& item : overrides) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail("config", "--set " + item + ": write it as key=value");
    }
    const std::string key = item.substr(0, equals), text = item.substr(equals + 1);
    const toml::parse_result value = parse_value(text);
    config.given_[key] = value ? to_text(*value.table().get("x")) : format_value(text);
  }
  return config;
}

bool Config::has(const std::string& key) const { return given_.count(key) > 0; }

double Config::get(const std::string& key, double fallback) {
  double value = fallback;
  if (const auto it = given_.find(key); it != given_.end()) {
    const auto parsed = parse_value(it->second);
    const auto number = parsed ? parsed.table()["x"].value<double>() : std::nullopt;
    if (number)
      value = *number;
    else
      reject(key, "expected a number, not " + it->second);
  }
  resolved_[key] = format_value(value);
  return value;
}

int64_t Config::get(const std::string& key, int64_t fallback) {
  int64_t value = fallback;
  if (const auto it = given_.find(key); it != given_.end()) {
    const auto parsed = parse_value(it->second);
    if (parsed && parsed.table()["x"].is_integer())
      value = *parsed.table()["x"].value<int64_t>();
    else
      reject(key, "expected a whole number, not " + it->second);
  }
  resolved_[key] = format_value(value);
  return value;
}

bool Config::get(const std::string& key, bool fallback) {
  bool value = fallback;
  if (const auto it = given_.find(key); it != given_.end()) {
    const auto parsed = parse_value(it->second);
    if (parsed && parsed.table()["x"].is_boolean())
      value = *parsed.table()["x"].value<bool>();
    else
      reject(key, "expected true or false, not " + it->second);
  }
  resolved_[key] = format_value(value);
  return value;
}

std::string Config::get(const std::string& key, const char* fallback) {
  std::string value = fallback;
  if (const auto it = given_.find(key); it != given_.end()) {
    const auto parsed = parse_value(it->second);
    if (parsed && parsed.table()["x"].is_string())
      value = *parsed.table()["x"].value<std::string>();
    else
      reject(key, "expected a string, not " + it->second);
  }
  resolved_[key] = format_value(value);
  return value;
}

std::vector<std::string> Config::get(const std::string& key, const std::vector<std::string>& fallback) {
  std::vector<std::string> value = fallback;
  if (const auto it = given_.find(key); it != given_.end()) {
    value.clear();
    const auto parsed = parse_value(it->second);
    const toml::array* list = parsed ? parsed.table()["x"].as_array() : nullptr;
    if (list == nullptr)
      reject(key, "expected a list of strings, not " + it->second);
    else
      for (const auto& node : *list) {
        if (node.is_string())
          value.push_back(*node.value<std::string>());
        else
          reject(key, "expected a list of strings, not " + it->second);
      }
  }
  resolved_[key] = format_list(value);
  return value;
}

std::vector<double> Config::get(const std::string& key, const std::vector<double>& fallback) {
  std::vector<double> value = fallback;
  if (const auto it = given_.find(key); it != given_.end()) {
    value.clear();
    const auto parsed = parse_value(it->second);
    const toml::array* list = parsed ? parsed.table()["x"].as_array() : nullptr;
    if (list == nullptr)
      reject(key, "expected a list of numbers, not " + it->second);
    else
      for (const auto& node : *list) {
        if (const auto number = node.value<double>())
          value.push_back(*number);
        else
          reject(key, "expected a list of numbers, not " + it->second);
      }
  }
  resolved_[key] = format_list(value);
  return value;
}

void Config::reject(const std::string& key, const std::string& why) {
  errors_.push_back(where_ + ": " + key + ": " + why);
}

Status Config::finish() const {
  if (!errors_.empty()) return fail("config", errors_.front());
  for (const auto& [key, text] : given_) {
    if (resolved_.count(key) > 0) continue;
    std::vector<std::string> known;
    for (const auto& [name, ignored] : resolved_) known.push_back(name);
    const std::string near = nearest(key, known);
    return fail("config", where_ + ": unknown key " + key + (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  return {};
}

std::string Config::resolved() const {
  // Keys without a dot first: in TOML they would else belong to the table above them.
  std::string top, rest, section;
  for (const auto& [key, text] : resolved_) {
    const size_t dot = key.rfind('.');
    if (dot == std::string::npos) {
      top += key + " = " + text + "\n";
      continue;
    }
    if (key.substr(0, dot) != section) {
      section = key.substr(0, dot);
      rest += "\n[" + section + "]\n";
    }
    rest += key.substr(dot + 1) + " = " + text + "\n";
  }
  return top + rest;
}

}  // namespace kz
