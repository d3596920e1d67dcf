// Runs a trusted helper program of ours to its end. Candidates and compilers never run through this: see keck/sandbox.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kz {

// Feeds `input` to standard input and returns standard output; standard error is inherited. `environment` is added to
// ours
// ("NAME=value"). Error "process" names the program and how it ended.
Result<std::string> run_program(const std::vector<std::string>& argv, std::string_view input,
                                const std::vector<std::string>& environment = {});

}  // namespace kz
