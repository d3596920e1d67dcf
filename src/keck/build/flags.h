// Which compiler and linker flags a candidate may give (keck.md, part 2): an allow-list, because a compiler obeys many
// that read files, load code or run programs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace kz::keck {

struct Flags {
  std::vector<std::string> compile;  // in the order given
  std::vector<std::string> link;
  // Of `compile`, those that change what a precompiled header holds: standard, target, OpenMP, macros, whether
  // optimised. Optimisation levels above none are one class.
  std::vector<std::string> precompiled;
  bool native = false;  // -march=native: the object is for this machine's processor only
  bool warnings_are_errors = false;
};

// Error "forbidden_flag" names the flag.
Result<Flags> check_flags(const std::vector<std::string>& cflags, const std::vector<std::string>& ldflags);

}  // namespace kz::keck
