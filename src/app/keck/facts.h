// What `keck doctor` looks at: each fact as data, and as a line for a person with the remedy where something is
// missing.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/layout.h"

namespace kz::keck {

class Findings {
 public:
  void found(const std::string& what, const std::string& detail);
  void note(const std::string& what, const std::string& detail);  // less than it could be, but it works
  void missing(const std::string& what, const std::string& detail, const std::string& remedy);  // Keck cannot work so
  bool good() const;
  Json json() const;
  std::string text(bool colour) const;

 private:
  struct Line {
    std::string kind, what, detail, remedy;  // kind: "found" "note" "missing"
  };
  std::vector<Line> lines_;
};

Json layout_facts(const Layout& layout, Findings& findings);
Json state_facts(const fs::path& state, Findings& findings);
Json python_facts(const Layout& layout, Findings& findings);  // interpreter, torch, triton, numpy
Json compiler_facts(Findings& findings);
Json device_facts(Findings& findings);

}  // namespace kz::keck
