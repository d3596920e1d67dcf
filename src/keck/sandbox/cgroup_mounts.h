// Which control-group hierarchies are mounted, and where in them this process is: /proc/self/mountinfo and
// /proc/self/cgroup.
#pragma once

#include <string_view>
#include <vector>

#include "base/files.h"

namespace kz::keck::sandbox {

struct CgroupMount {
  fs::path mount_point;  // where the hierarchy is mounted
  fs::path own;          // the folder of the group that this process is in
  bool v2 = false;
  bool memory = false, pids = false, cpu = false, freezer = false;  // v1: the controllers of this hierarchy
};

// Pure, for tests: the texts of the two files.
std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo, std::string_view self_cgroup);
std::vector<CgroupMount> cgroup_mounts();

}  // namespace kz::keck::sandbox
