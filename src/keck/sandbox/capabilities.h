// keck/sandbox: how untrusted programs are confined, and what this host lets us confine with.
//
// Theory of operation. A *slot* (slot.h) is one place where one untrusted process tree runs: a uid, cgroups, limits
// and, at level strong, a *box*: mount, pid, ipc, net and uts namespaces around a private root, held by keck-init, PID
// 1 of the box, which dies when its daemon does and takes the whole box with it. Python children are forked by the
// zygote into a box and lock themselves in (confine.h); compilers are started in one (run.h). At level weak, for
// containers without privileges, the same calls use what is left: no_new_privs, seccomp (no new processes, no sockets,
// no signals to others), Landlock, rlimits. What the host gives is probed once, published, and never silently lowered.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace kz::keck::sandbox {

enum class Level { kWeak, kStrong };
std::string_view to_string(Level level);  // "weak" "strong"

enum class CgroupMode { kNone, kV1, kHybrid, kV2 };  // hybrid: controllers on v1, a v2 tree mounted beside them
std::string_view to_string(CgroupMode mode);

// What this process, on this host, can really do: each flag is the result of trying it, not of reading a version.
struct Capabilities {
  // Namespaces that a new process could be given without a user namespace, and user namespaces themselves.
  bool mount_ns = false, pid_ns = false, net_ns = false, ipc_ns = false, uts_ns = false, user_ns = false;
  bool private_root = false;  // tmpfs, bind, pivot_root and a fresh /proc worked in a probe
  CgroupMode cgroup = CgroupMode::kNone;
  bool memory_limit = false, pids_limit = false, cpu_limit = false;  // a group of ours could be made with this limit
  bool cgroup_kill = false;                                          // v2 cgroup.kill, wherever v2 is mounted
  bool cgroup_freeze = false;                                        // v2 freezer or v1's
  bool seccomp = false;
  int landlock_abi = 0;            // 0: none
  bool uid_switch = false;         // root with CAP_SETUID and CAP_SETGID, and the uids exist here
  bool vm_read = false;            // process_vm_readv of an own child of the same uid
  bool vm_read_other_uid = false;  // … of a child that switched uid (CAP_SYS_PTRACE)
  bool pidfd = false;
  bool root = false;
  bool in_user_ns = false;  // root of a user namespace only (rootless containers)
  std::string caps;         // effective capability set, hex
  std::string kernel;       // uname -r
};

Json to_json(const Capabilities& capabilities);

// Tries everything, in throw-away children; about 50 ms. Leaves no process, mount or cgroup.
Capabilities probe_capabilities();

// The level to run at. `configured` is "auto" (the best that the host gives), "strong" or "weak"; a stronger demand
// than the host can meet is Error "host" with what is missing and a remedy in one line. "weak" on a strong host stays
// weak.
Result<Level> choose(const Capabilities& capabilities, std::string_view configured);

// What the level lacks here, one line each, for `keck doctor` and verdicts ("no memory limit by cgroup: RLIMIT_DATA
// instead").
std::vector<std::string> missing(const Capabilities& capabilities, Level level);

}  // namespace kz::keck::sandbox
