// Verdicts for people: compact, with colours on a terminal.
#pragma once

#include <string>

#include "keck/job/verdict.h"

namespace kz::keck {

struct PrintOptions {
  bool colour = false;
  std::string candidate_name = "kernel";  // file, for compiler messages
};

std::string pretty(const Verdict& verdict, const PrintOptions& options);
std::string pretty(const ModuleReport& report, const PrintOptions& options);
bool terminal_has_colour(int fd);  // a terminal, and NO_COLOR is not set

}  // namespace kz::keck
