// Reads the fields of a JSON object strictly: a wrong type, a value out of range and an unknown name are errors that
// name the field (and, for an unknown one, the nearest known name). Use: Fields f(body); x = f.text("x", limit); …;
// f.finish().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kz::keck {

class Fields {
 public:
  // `path` is put before field names in errors ("policy.").
  explicit Fields(const Json& object, std::string path = "");

  // Each reader notes the first problem and returns the fallback then; finish() reports it.
  std::string text(const char* name, std::string fallback, size_t limit_bytes);
  std::string required_text(const char* name, size_t limit_bytes);
  std::string choice(const char* name, std::string fallback, const std::vector<std::string>& allowed);
  bool flag(const char* name, bool fallback);
  double number(const char* name, double fallback, double low, double high);
  int64_t integer(const char* name, int64_t fallback, int64_t low, int64_t high);
  std::optional<uint64_t> unsigned_integer(const char* name);  // null and absent are nullopt
  std::vector<std::string> texts(const char* name, size_t limit_count, size_t limit_bytes);
  const Json* object(const char* name);  // nullptr when absent
  void note(const Status& status);       // a problem of a nested object

  Status finish() const;  // error "request"

 private:
  const Json* find(const char* name);
  void problem(const char* name, const std::string& what);

  const Json& object_;
  std::string path_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace kz::keck
