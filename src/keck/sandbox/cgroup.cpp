#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "base/clock.h"
#include "keck/sandbox/cgroup_files.h"
#include "keck/sandbox/cgroups.h"

namespace kz::keck::sandbox {
namespace {

constexpr uint64_t kUnlimited = 1ULL << 62;

std::string text_of(uint64_t value, bool v2) {
  if (v2) return value == 0 ? "max" : std::to_string(value);
  return std::to_string(value == 0 ? kUnlimited : value);
}

// Waits in short steps: these events take some 0.1 to 10 ms.
template <typename Done>
bool wait_until(double timeout_s, const Done& done) {
  const Stopwatch watch;
  for (unsigned pause_us = 20;; pause_us = std::min(pause_us * 2, 2000U)) {
    if (done()) return true;
    if (watch.seconds() > timeout_s) return false;
    ::usleep(pause_us);
  }
}

}  // namespace

Result<Cgroup> Cgroup::make(const CgroupBase& base, const std::string& name) {
  Cgroup group;
  group.base_ = &base;
  for (const auto& h : base.hierarchies()) {
    const fs::path dir = h.base / name;
    if (::mkdir(dir.c_str(), 0755) != 0 && errno != EEXIST) {
      return fail("host", "cannot make the control group " + dir.string() + ": " + errno_text(errno));
    }
    group.parts_.push_back({dir, h.v2, h.memory, h.pids, h.cpu, h.freezer, true});
  }
  return group;
}

Cgroup& Cgroup::operator=(Cgroup&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(parts_, other.parts_);
  memory_limit_ = other.memory_limit_;
  cpu_start_ = other.cpu_start_;
  oom_start_ = other.oom_start_;
  return *this;
}

Cgroup::~Cgroup() {
  for (const auto& p : parts_) remove_group(p.dir);
}

const Cgroup::Part* Cgroup::part(bool Part::* controller) const {
  for (const auto& p : parts_) {
    if (p.*controller) return &p;
  }
  return nullptr;
}

const Cgroup::Part* Cgroup::v2_part() const { return part(&Part::v2); }

Status Cgroup::begin(uint64_t memory_bytes, int processes, double cpus) {
  const auto refused = [](const fs::path& file) {
    return fail("host", "cannot set the limit " + file.string() + ": " + errno_text(errno));
  };
  if (const Part* p = part(&Part::memory)) {
    // memory.peak can't be reset: a new group has a new one.
    if (p->v2 && ::rmdir(p->dir.c_str()) == 0 && ::mkdir(p->dir.c_str(), 0755) != 0) return refused(p->dir);
    const fs::path file = p->dir / (p->v2 ? "memory.max" : "memory.limit_in_bytes");
    if (!put_text(file, text_of(memory_bytes, p->v2))) return refused(file);
    if (p->v2) {
      put_text(p->dir / "memory.swap.max", "0");
    } else {
      put_text(p->dir / "memory.max_usage_in_bytes", "0");
    }
  }
  if (const Part* p = part(&Part::pids)) {
    const fs::path file = p->dir / "pids.max";
    if (!put_text(file, processes == 0 ? "max" : std::to_string(processes))) return refused(file);
  }
  const Part* quota = part(&Part::cpu);
  if (quota != nullptr) {
    constexpr double kPeriodUs = 100000;
    const auto us = std::to_string(static_cast<long>(cpus * kPeriodUs));
    const fs::path file = quota->dir / (quota->v2 ? "cpu.max" : "cpu.cfs_quota_us");
    const std::string value = quota->v2 ? (cpus > 0 ? us + " 100000" : "max") : (cpus > 0 ? us : "-1");
    if (!put_text(file, value) && cpus > 0) return refused(file);
  }
  // A v1 hierarchy that does nothing for this run is not joined: each join costs 0.05 to 0.1 ms.
  for (auto& p : parts_) {
    p.joined = p.v2 || p.memory || p.pids || (p.cpu && cpus > 0) || (p.freezer && v2_part() == nullptr);
  }
  memory_limit_ = memory_bytes;
  cpu_start_ = raw_cpu();
  oom_start_ = raw_oom();
  return {};
}

std::vector<std::string> Cgroup::procs_files() const {
  std::vector<std::string> out;
  for (const auto& p : parts_) {
    if (p.joined) out.push_back((p.dir / "cgroup.procs").string());
  }
  return out;
}

bool Cgroup::kill() {
  const Part* p = v2_part();
  return p != nullptr && put_text(p->dir / "cgroup.kill", "1");
}

void Cgroup::signal_all(int signal) {
  for (const auto& p : parts_) {
    if (!p.joined) continue;
    const auto text = read_file(p.dir / "cgroup.procs", 1 << 20);
    std::istringstream pids(text ? *text : "");
    for (pid_t pid = 0; pids >> pid;) {
      if (pid > 1) ::kill(pid, signal);
    }
    return;  // every joined part holds the same processes
  }
}

Status Cgroup::freeze(double timeout_s) {
  const Part* p = v2_part() != nullptr ? v2_part() : part(&Part::freezer);
  if (p == nullptr) return fail("host", "no freezer control group on this host");
  const auto stuck = [] { return fail("freeze_timeout", "the processes of a slot did not stop in time"); };
  if (!p->v2) {
    put_text(p->dir / "freezer.state", "FROZEN");
    const auto frozen = [&] { return read_file(p->dir / "freezer.state", 64).value_or("").rfind("FROZEN", 0) == 0; };
    return wait_until(timeout_s, frozen) ? Status() : stuck();
  }
  if (!put_text(p->dir / "cgroup.freeze", "1")) return fail("host", "cgroup.freeze refused: " + errno_text(errno));
  const auto frozen = [&] { return number_in(p->dir / "cgroup.events", "frozen") == 1; };
  return wait_until(timeout_s, frozen) ? Status() : stuck();
}

Status Cgroup::thaw() {
  const Part* p = v2_part() != nullptr ? v2_part() : part(&Part::freezer);
  if (p == nullptr) return fail("host", "no freezer control group on this host");
  const bool ok = p->v2 ? put_text(p->dir / "cgroup.freeze", "0") : put_text(p->dir / "freezer.state", "THAWED");
  return ok ? Status() : fail("host", "cannot thaw a slot: " + errno_text(errno));
}

bool Cgroup::empty() const {
  if (const Part* p = v2_part()) return number_in(p->dir / "cgroup.events", "populated", 0) == 0;
  for (const auto& p : parts_) {
    if (p.joined) return read_file(p.dir / "cgroup.procs", 1 << 20).value_or("").empty();
  }
  return true;
}

bool Cgroup::wait_empty(double timeout_s) const {
  return wait_until(timeout_s, [&] { return empty(); });
}

double Cgroup::raw_cpu() const {
  if (const Part* p = v2_part()) return 1e-6 * static_cast<double>(number_in(p->dir / "cpu.stat", "usage_usec"));
  // v1 without a v2 tree: cpuacct comes with cpu where the two are mounted together, as they are everywhere but by
  // hand.
  const Part* p = part(&Part::cpu);
  return p != nullptr && p->joined ? 1e-9 * static_cast<double>(number_in(p->dir / "cpuacct.usage")) : -1;
}

uint64_t Cgroup::raw_oom() const {
  const Part* p = part(&Part::memory);
  if (p == nullptr) return 0;
  return number_in(p->dir / (p->v2 ? "memory.events" : "memory.oom_control"), "oom_kill");
}

double Cgroup::cpu_seconds() const {
  const double now = raw_cpu();
  return now < 0 ? -1 : now - cpu_start_;
}

uint64_t Cgroup::memory_peak() const {
  const Part* p = part(&Part::memory);
  return p == nullptr ? 0 : number_in(p->dir / (p->v2 ? "memory.peak" : "memory.max_usage_in_bytes"));
}

bool Cgroup::near_limit() const { return memory_limit_ > 0 && memory_peak() >= memory_limit_ / 10 * 9; }

uint64_t Cgroup::oom_kills() const { return raw_oom() - oom_start_; }

}  // namespace kz::keck::sandbox
