#include "keck/sandbox/task_files.h"

#include <cstdlib>
#include <string>

#include "base/files.h"
#include "keck/sandbox/cgroup_files.h"

namespace kz::keck::sandbox {
namespace {

// The fields after the command's name, which may hold blanks and brackets: "S 1 2 …".
std::string stat_fields(const fs::path& dir) {
  const auto text = read_file(dir / "stat", 1 << 16);
  if (!text) return "";
  const size_t end = text->rfind(')');
  return end == std::string::npos ? "" : text->substr(end + 2);
}

}  // namespace

uint64_t tasks_of_uid(uid_t uid) {
  uint64_t count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // Not the folder's owner: that is root for a process that may not be dumped.
    if (number_in(entry.path() / "status", "Uid:", ~0ULL) != uid) continue;
    count += number_in(entry.path() / "status", "Threads:", 1);
  }
  return count;
}

bool all_stopped(pid_t pid) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task", ignored)) {
    const std::string fields = stat_fields(entry.path());
    if (!fields.empty() && fields[0] != 'T' && fields[0] != 'Z' && fields[0] != 'X') return false;
  }
  return true;
}

}  // namespace kz::keck::sandbox
