// Tests: runs the real `kernelzero` beside this test program and catches what it says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"

namespace kz::app {

struct Ran {
  int exit_code = -1;  // 128 + signal when it was killed
  std::string out, err;
};

// `kill_after_s`: kill -9 after so many seconds, if it still runs.
Ran run_cli(const std::vector<std::string>& arguments, std::optional<double> kill_after_s = {});

}  // namespace kz::app
