#include "keck/sandbox/cgroup_mounts.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace kz::keck::sandbox {
namespace {

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Path of our group in the hierarchy that has `controller` ("" for v2), as /proc/self/cgroup tells it.
std::string own_path(std::string_view self_cgroup, std::string_view controller) {
  for (const std::string& line : split(self_cgroup, '\n')) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : has(split(names, ','), controller)) return line.substr(second + 1);
  }
  return "";
}

}  // namespace

std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo, std::string_view self_cgroup) {
  std::vector<CgroupMount> out;
  for (const std::string& line : split(mountinfo, '\n')) {
    // "36 35 98:0 ROOT MOUNT_POINT OPTIONS … - TYPE SOURCE SUPER_OPTIONS"
    const auto fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 7 || fields.end() - dash < 4) continue;
    const std::string& root = fields[3];
    CgroupMount m;
    m.mount_point = fields[4];
    m.v2 = dash[1] == "cgroup2";
    if (!m.v2 && dash[1] != "cgroup") continue;
    const auto controllers = split(dash[3], ',');
    m.memory = has(controllers, "memory");
    m.pids = has(controllers, "pids");
    m.cpu = has(controllers, "cpu");
    m.freezer = has(controllers, "freezer");
    if (!m.v2 && !m.memory && !m.pids && !m.cpu && !m.freezer) continue;
    const char* key = m.v2 ? "" : m.memory ? "memory" : m.pids ? "pids" : m.cpu ? "cpu" : "freezer";
    std::string path = own_path(self_cgroup, key);
    if (path.empty()) continue;
    // The mount may show a part of the hierarchy only (containers): take its root off the path.
    if (root != "/" && path.compare(0, root.size(), root) == 0) path = path.substr(root.size());
    const fs::path below = fs::path(path).relative_path();
    m.own = below.empty() ? m.mount_point : m.mount_point / below;
    const auto same = [&](const CgroupMount& other) {
      return other.v2 == m.v2 && other.memory == m.memory && other.pids == m.pids && other.cpu == m.cpu &&
             other.freezer == m.freezer;
    };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back(m);
  }
  return out;
}

std::vector<CgroupMount> cgroup_mounts() {
  const auto mountinfo = read_file("/proc/self/mountinfo", 4 << 20);
  const auto self = read_file("/proc/self/cgroup", 1 << 20);
  return mountinfo && self ? parse_cgroup_mounts(*mountinfo, *self) : std::vector<CgroupMount>();
}

}  // namespace kz::keck::sandbox
