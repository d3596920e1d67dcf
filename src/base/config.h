// TOML configuration. Every key must be read: an unknown one is an error that names the nearest known key.
// Use: KZ_ASSIGN(auto c, Config::load(path, overrides)); x = c.get("train.lr", 1e-4); …; KZ_TRY(c.finish());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"

namespace kz {

class Config {
 public:
  // Overrides are "a.b=value" in TOML value syntax; a bare word that is no TOML value is taken as a string.
  static Result<Config> load(const fs::path& path, const std::vector<std::string>& overrides = {});
  static Result<Config> parse(std::string_view toml, std::string_view where,
                              const std::vector<std::string>& overrides = {});

  // Each get marks the key as known and records the resolved value; a wrong type is reported by finish().
  double get(const std::string& key, double fallback);
  int64_t get(const std::string& key, int64_t fallback);
  int64_t get(const std::string& key, int fallback) { return get(key, static_cast<int64_t>(fallback)); }
  bool get(const std::string& key, bool fallback);
  std::string get(const std::string& key, const char* fallback);
  std::string get(const std::string& key, const std::string& fallback) { return get(key, fallback.c_str()); }
  std::vector<std::string> get(const std::string& key, const std::vector<std::string>& fallback);
  std::vector<double> get(const std::string& key, const std::vector<double>& fallback);
  bool has(const std::string& key) const;

  // Error "config" for an unknown key (with the nearest known one), a wrong type or a value out of range noted by
  // reject().
  Status finish() const;
  void reject(const std::string& key, const std::string& why);  // a value the caller found impossible
  std::string resolved() const;                                 // every key read with its value, as TOML

 private:
  struct Value;
  std::string where_;
  std::map<std::string, std::string> given_;     // dotted key -> TOML text of the value
  std::map<std::string, std::string> resolved_;  // dotted key -> TOML text
  std::vector<std::string> errors_;
};

}  // namespace kz
