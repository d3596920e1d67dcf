// Runs the real programs and catches what they say.
#pragma once

#include <string>
#include <vector>

#include "base/layout.h"
#include "base/testing/ran.h"

namespace kz::keck {

Layout test_layout();  // aborts the test program when there is none
// `program`: "keck" or "kernelzero". Standard output goes to the file `output` where one is named ("/dev/full").
Ran run_program(const std::string& program, const std::vector<std::string>& arguments, const std::string& output = "");
Ran run_keck(const std::vector<std::string>& arguments);
// All processes that `pid` started, directly or not, and itself.
std::vector<int> family_of(int pid);
bool alive(int pid);

}  // namespace kz::keck
