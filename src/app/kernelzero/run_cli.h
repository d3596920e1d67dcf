// Tests: runs the real `kernelzero` beside this test program and catches what it says.
#pragma once

#include "base/testing/ran.h"

namespace kz::app {

// `kill_after_s`: kill -9 after so many seconds, if it still runs.
Ran run_cli(const std::vector<std::string>& arguments, std::optional<double> kill_after_s = {});

}  // namespace kz::app
