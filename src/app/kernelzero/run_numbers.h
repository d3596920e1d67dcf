// Tests: everything of a finished run that must repeat, as one text to compare.
#pragma once

#include <string>

#include "base/files.h"

namespace kz::app {

// The summary without time and memory, every rollout with its reward, every metric that is no time, every sample of the
// evaluations.
std::string run_numbers(const fs::path& run);

}  // namespace kz::app
