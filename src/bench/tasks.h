// Evaluation tasks from a folder in KernelBench form: *.py files, each with Model, get_inputs and get_init_inputs,
// flat or in level1/, level2/, … as the public checkout has them.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"

namespace kz::bench {

struct Task {
  std::string name;    // file name without .py
  int level = 0;       // from the folder level<N>; 0 for a flat folder
  std::string module;  // source
};

// Sorted by level, then by the number that the name begins with, then by name. Error "io" names a folder with no task
// in it, and a file that is too large or no UTF-8.
Result<std::vector<Task>> load_tasks(const fs::path& folder);

}  // namespace kz::bench
