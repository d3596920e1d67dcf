#include "keck/sandbox/capabilities.h"

#include "base/text.h"

namespace kz::keck::sandbox {
namespace {

// What a strong sandbox needs, as a person would say it, and what to do about it.
std::vector<std::string> lacking_for_strong(const Capabilities& c) {
  std::vector<std::string> out;
  if (!(c.mount_ns && c.pid_ns && c.net_ns && c.ipc_ns && c.uts_ns)) out.emplace_back("namespaces");
  if (!c.private_root) out.emplace_back("a private root (mount, pivot_root, /proc)");
  if (!c.seccomp) out.emplace_back("seccomp");
  if (!c.pidfd) out.emplace_back("pidfd");
  if (!c.uid_switch) out.emplace_back("uids for its slots");
  if (!c.vm_read_other_uid) out.emplace_back("CAP_SYS_PTRACE");
  if (!c.memory_limit) out.emplace_back("a memory control group");
  if (!c.pids_limit) out.emplace_back("a pids control group");
  return out;
}

}  // namespace

std::string_view to_string(Level level) { return level == Level::kStrong ? "strong" : "weak"; }

std::string_view to_string(CgroupMode mode) {
  switch (mode) {
    case CgroupMode::kV1:
      return "v1";
    case CgroupMode::kHybrid:
      return "hybrid";
    case CgroupMode::kV2:
      return "v2";
    case CgroupMode::kNone:
      break;
  }
  return "none";
}

Json to_json(const Capabilities& c) {
  return Json{{"namespaces",
               {{"mount", c.mount_ns},
                {"pid", c.pid_ns},
                {"net", c.net_ns},
                {"ipc", c.ipc_ns},
                {"uts", c.uts_ns},
                {"user", c.user_ns}}},
              {"private_root", c.private_root},
              {"cgroup", to_string(c.cgroup)},
              {"memory_limit", c.memory_limit},
              {"pids_limit", c.pids_limit},
              {"cpu_limit", c.cpu_limit},
              {"cgroup_kill", c.cgroup_kill},
              {"cgroup_freeze", c.cgroup_freeze},
              {"seccomp", c.seccomp},
              {"landlock_abi", c.landlock_abi},
              {"uid_switch", c.uid_switch},
              {"vm_read", c.vm_read},
              {"vm_read_other_uid", c.vm_read_other_uid},
              {"pidfd", c.pidfd},
              {"root", c.root},
              {"in_user_ns", c.in_user_ns},
              {"caps", c.caps},
              {"kernel", c.kernel}};
}

Result<Level> choose(const Capabilities& c, std::string_view configured) {
  if (configured != "auto" && configured != "strong" && configured != "weak") {
    return fail("config", "sandbox = \"" + std::string(configured) + "\": it is \"auto\", \"strong\" or \"weak\"");
  }
  const auto lacking = lacking_for_strong(c);
  if (configured != "weak" && lacking.empty()) return Level::kStrong;
  if (configured == "strong") {
    return fail("host", "no strong sandbox on this host, it lacks " + join(lacking, ", ") + ": " +
                            (c.root ? "start the container with --privileged, or" : "run as root, or") +
                            " set sandbox = \"auto\" to take what there is");
  }
  if (!c.seccomp) {
    return fail("host", "this host has not even seccomp: use a kernel (or container runtime) that permits it");
  }
  return Level::kWeak;
}

std::vector<std::string> missing(const Capabilities& c, Level level) {
  std::vector<std::string> out;
  const bool boxes = c.private_root && c.pid_ns && c.net_ns && level == Level::kStrong;
  if (level == Level::kStrong) {
    if (!c.cgroup_kill) out.emplace_back("no cgroup.kill: a slot is killed by its pid namespace");
    if (!c.cgroup_freeze) out.emplace_back("no freezer: children are stopped by signal while others are timed");
    if (!c.cpu_limit) out.emplace_back("no CPU quota by control group");
    return out;
  }
  if (!boxes && !c.private_root)
    out.emplace_back("no namespaces: processes of the host are visible, new processes are refused");
  if (!c.memory_limit) out.emplace_back("no memory control group: RLIMIT_AS instead, shared files are not counted");
  if (!c.uid_switch || !c.vm_read_other_uid)
    out.emplace_back("no uid of its own for a slot: candidates run as this user");
  if (c.landlock_abi == 0 && !c.private_root) {
    out.emplace_back("no Landlock: a candidate can read and write what this user can, other candidates' memory too");
  } else if (c.landlock_abi < 4 && !c.private_root) {
    out.emplace_back("an old Landlock: files only");
  }
  if (!c.private_root) out.emplace_back("no size limit on a private folder but that of its disk");
  return out;
}

}  // namespace kz::keck::sandbox
