// Control groups, v1 and v2 alike: where our groups can live, and one group (a folder in each hierarchy) a slot.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "keck/sandbox/capabilities.h"

namespace kz::keck::sandbox {

// One mounted hierarchy in which groups can be made.
struct Hierarchy {
  fs::path base;  // folder of ours, parent of the slots' groups
  bool v2 = false;
  bool memory = false, pids = false, cpu = false, freezer = false;
};

// The parent folders of one pool: "keck-<pid>-<name>" below the group that this process is in. On pure v2, where a
// group with processes can't give controllers to its children, this process first moves to a leaf beside it; where
// others share its group, the nearest group above that has the controllers already is used. Removed at the end, and so
// are those that a killed daemon left.
class CgroupBase {
 public:
  static CgroupBase make(const std::string& name);  // without hierarchies where nothing can be made
  CgroupBase() = default;
  CgroupBase(CgroupBase&& other) noexcept { *this = std::move(other); }
  CgroupBase& operator=(CgroupBase&& other) noexcept;
  ~CgroupBase();

  const std::vector<Hierarchy>& hierarchies() const { return hierarchies_; }
  CgroupMode mode() const { return mode_; }
  bool has_memory() const;
  bool has_pids() const;
  bool has_cpu() const;
  bool has_kill() const;  // v2's cgroup.kill
  bool has_freeze() const;

 private:
  std::vector<Hierarchy> hierarchies_;
  CgroupMode mode_ = CgroupMode::kNone;
  fs::path leaf_, left_;  // v2: where we moved to and from
};

// One slot's group.
class Cgroup {
 public:
  static Result<Cgroup> make(const CgroupBase& base, const std::string& name);
  Cgroup() = default;
  Cgroup(Cgroup&& other) noexcept : base_(other.base_), parts_(std::move(other.parts_)) { other.parts_.clear(); }
  Cgroup& operator=(Cgroup&& other) noexcept;
  ~Cgroup();  // removes it; it must be empty

  // memory and processes: 0 = unlimited; cpus: quota in cores, 0 = none. Also starts the counters afresh.
  Status begin(uint64_t memory_bytes, int processes, double cpus);
  // cgroup.procs of every part that a process has to join.
  std::vector<std::string> procs_files() const;

  bool usable() const { return !parts_.empty(); }
  bool kill();                  // true when the kernel has been told to kill all at once
  void signal_all(int signal);  // one by one, for hosts without cgroup.kill
  Status freeze(double timeout_s);
  Status thaw();
  bool empty() const;
  bool wait_empty(double timeout_s) const;
  double cpu_seconds() const;    // since begin; negative where unknown
  uint64_t memory_peak() const;  // since begin; 0 where unknown
  uint64_t oom_kills() const;    // since begin
  bool near_limit() const;       // the memory limit was reached, so a kill was by it and not by a host in need

 private:
  struct Part {
    fs::path dir;
    bool v2, memory, pids, cpu, freezer, joined;
  };
  const Part* part(bool Part::* controller) const;
  const Part* v2_part() const;
  double raw_cpu() const;
  uint64_t raw_oom() const;

  const CgroupBase* base_ = nullptr;
  std::vector<Part> parts_;
  uint64_t memory_limit_ = 0;
  double cpu_start_ = 0;
  uint64_t oom_start_ = 0;
};

}  // namespace kz::keck::sandbox
