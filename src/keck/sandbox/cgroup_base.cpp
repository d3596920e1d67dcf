#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/text.h"
#include "keck/sandbox/cgroup_files.h"
#include "keck/sandbox/cgroup_mounts.h"
#include "keck/sandbox/cgroups.h"

namespace kz::keck::sandbox {
namespace {

constexpr char kPrefix[] = "keck-";

bool word_in(const fs::path& file, std::string_view word) {
  const auto text = read_file(file, 1 << 16);
  if (!text) return false;
  const auto words = split(std::string(trim(*text)), ' ');
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool gives_limits(const fs::path& dir) {
  return word_in(dir / "cgroup.subtree_control", "memory") && word_in(dir / "cgroup.subtree_control", "pids");
}

bool enable_limits(const fs::path& dir) {
  if (gives_limits(dir)) return true;
  if (!word_in(dir / "cgroup.controllers", "memory") || !word_in(dir / "cgroup.controllers", "pids")) return false;
  put_text(dir / "cgroup.subtree_control", "+cpu");
  return put_text(dir / "cgroup.subtree_control", "+memory +pids") && gives_limits(dir);
}

// Groups of daemons that are gone. Their name holds the pid; a group with processes can't be removed, so a wrong guess
// about a pid does no harm.
void remove_stale(const fs::path& parent) {
  std::error_code ignored;
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename();
    if (name.rfind(kPrefix, 0) != 0) continue;
    const auto pid = static_cast<pid_t>(std::strtol(name.c_str() + sizeof kPrefix - 1, nullptr, 10));
    if (pid > 0 && pid != getpid() && kill(pid, 0) != 0 && errno == ESRCH) stale.push_back(entry.path());
  }
  for (const auto& dir : stale) remove_group(dir);
}

// Where our parent group goes in the v2 tree, controllers enabled if the host permits it at all.
fs::path v2_parent(const CgroupMount& mount, const std::string& leaf_name, fs::path* leaf, fs::path* left) {
  if (enable_limits(mount.own)) return mount.own;
  const fs::path candidate = mount.own / leaf_name;
  if (::mkdir(candidate.c_str(), 0755) == 0) {
    if (put_text(candidate / "cgroup.procs", "0")) {
      if (enable_limits(mount.own)) {
        *leaf = candidate;
        *left = mount.own;
        return mount.own;
      }
      put_text(mount.own / "cgroup.procs", "0");
    }
    ::rmdir(candidate.c_str());
  }
  // Others share our group, so it stays as it is: the nearest group above that gives the controllers anyway.
  for (fs::path up = mount.own; up != mount.mount_point && up.has_relative_path();) {
    up = up.parent_path();
    if (gives_limits(up) && ::access(up.c_str(), W_OK) == 0) return up;
  }
  return mount.own;
}

}  // namespace

CgroupBase CgroupBase::make(const std::string& name) {
  static std::atomic<int> counter{0};  // pools of one process must not share folders
  const std::string own = kPrefix + std::to_string(getpid()) + "-" + name + "-" + std::to_string(counter++);
  CgroupBase base;
  bool v1_limits = false, v2 = false;
  const auto mounts = cgroup_mounts();
  for (const auto& m : mounts) v1_limits = v1_limits || (!m.v2 && (m.memory || m.pids));
  for (const auto& m : mounts) {
    // Beside v1 controllers the v2 tree is there for kill, freeze and CPU time only; it takes no controller.
    fs::path parent = m.v2 && !v1_limits ? v2_parent(m, own + "-leaf", &base.leaf_, &base.left_) : m.own;
    remove_stale(parent);
    Hierarchy h;
    h.base = parent / own;
    h.v2 = m.v2;
    if (::mkdir(h.base.c_str(), 0755) != 0) continue;
    if (m.v2) {
      const bool limits = !v1_limits && enable_limits(h.base);
      h.memory = h.pids = limits;
      h.cpu = limits && word_in(h.base / "cgroup.subtree_control", "cpu");
      h.freezer = ::access((h.base / "cgroup.freeze").c_str(), W_OK) == 0;
      v2 = true;
    } else {
      h.memory = m.memory, h.pids = m.pids, h.cpu = m.cpu, h.freezer = m.freezer;
    }
    base.hierarchies_.push_back(h);
  }
  base.mode_ = base.hierarchies_.empty() ? CgroupMode::kNone
               : !v1_limits              ? (v2 ? CgroupMode::kV2 : CgroupMode::kNone)
               : v2                      ? CgroupMode::kHybrid
                                         : CgroupMode::kV1;
  return base;
}

CgroupBase& CgroupBase::operator=(CgroupBase&& other) noexcept {
  std::swap(hierarchies_, other.hierarchies_);
  std::swap(mode_, other.mode_);
  std::swap(leaf_, other.leaf_);
  std::swap(left_, other.left_);
  return *this;
}

CgroupBase::~CgroupBase() {
  for (const auto& h : hierarchies_) remove_group(h.base);
  if (leaf_.empty()) return;
  // Undo the move to the leaf; another pool's groups may still need the controllers, then it stays.
  if (put_text(left_ / "cgroup.subtree_control", "-memory -pids -cpu") && put_text(left_ / "cgroup.procs", "0")) {
    ::rmdir(leaf_.c_str());
  }
}

bool CgroupBase::has_memory() const {
  return std::any_of(hierarchies_.begin(), hierarchies_.end(), [](const auto& h) { return h.memory; });
}
bool CgroupBase::has_pids() const {
  return std::any_of(hierarchies_.begin(), hierarchies_.end(), [](const auto& h) { return h.pids; });
}
bool CgroupBase::has_cpu() const {
  return std::any_of(hierarchies_.begin(), hierarchies_.end(), [](const auto& h) { return h.cpu; });
}
bool CgroupBase::has_freeze() const {
  return std::any_of(hierarchies_.begin(), hierarchies_.end(), [](const auto& h) { return h.freezer; });
}
bool CgroupBase::has_kill() const {
  return std::any_of(hierarchies_.begin(), hierarchies_.end(),
                     [](const auto& h) { return h.v2 && ::access((h.base / "cgroup.kill").c_str(), W_OK) == 0; });
}

}  // namespace kz::keck::sandbox
