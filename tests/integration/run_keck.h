// Runs the real `keck` and catches what it says.
#pragma once

#include <string>
#include <vector>

#include "base/layout.h"

namespace kz::keck {

struct Ran {
  int exit_code = -1;  // 128 + signal when it was killed
  std::string out, err;
};

Layout test_layout();  // aborts the test program when there is none
Ran run_keck(const std::vector<std::string>& arguments);
// All processes that `pid` started, directly or not, and itself.
std::vector<int> family_of(int pid);
bool alive(int pid);

}  // namespace kz::keck
