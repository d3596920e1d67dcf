#include "bench/tasks.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "base/text.h"

namespace kz::bench {
namespace {

int number_after(const std::string& text, size_t begin) {
  int value = 0;
  std::from_chars(text.data() + begin, text.data() + text.size(), value);
  return value;
}

int level_of(const fs::path& file) {
  const std::string folder = file.parent_path().filename().string();
  constexpr std::string_view kPrefix = "level";
  return folder.rfind(kPrefix, 0) == 0 ? number_after(folder, kPrefix.size()) : 0;
}

}  // namespace

Result<std::vector<Task>> load_tasks(const fs::path& folder) {
  constexpr uint64_t kLargest = 1 << 20;
  std::error_code error;
  std::vector<Task> tasks;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".py" || !it->is_regular_file()) continue;
    KZ_ASSIGN(std::string module, read_file(it->path(), kLargest));
    if (!valid_utf8(module)) return fail("io", it->path().string() + " is not UTF-8; save it as UTF-8");
    tasks.push_back({it->path().stem().string(), level_of(it->path()), std::move(module)});
  }
  if (error) return fail("io", "cannot read the tasks in " + folder.string() + ": " + error.message());
  if (tasks.empty())
    return fail("io", "no *.py task in " + folder.string() + "; point --tasks at a folder of KernelBench modules");
  std::sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) {
    return std::make_tuple(a.level, number_after(a.name, 0), a.name) <
           std::make_tuple(b.level, number_after(b.name, 0), b.name);
  });
  return tasks;
}

}  // namespace kz::bench
