// Tests: runs a real program to its end, or to a kill, and catches what it says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"

namespace kz {

struct Ran {
  int exit_code = -1;  // 128 + signal when it was killed
  std::string out, err;
};

struct RanOptions {
  std::string output;                  // standard output goes to this file ("/dev/full") and not to Ran::out
  std::optional<double> kill_after_s;  // kill -9 after so many seconds, if it still runs
};

// Where it can't be started Ran::err says why, and the exit code is -1.
Ran run_to_end(const fs::path& program, const std::vector<std::string>& arguments, const RanOptions& options = {});

}  // namespace kz
