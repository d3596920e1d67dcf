#include "keck/sandbox/slot.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "keck/sandbox/detached_tmpfs.h"
#include "keck/sandbox/slot_state.h"
#include "keck/sandbox/spec.h"
#include "keck/sandbox/task_files.h"

namespace kz::keck::sandbox {
namespace {

std::string line(const char* key, uint64_t value) { return std::string(key) + "=" + std::to_string(value) + "\n"; }
std::string line(const char* key, const std::string& value) { return std::string(key) + "=" + value + "\n"; }

Status start_box(SlotPool::Impl& pool, Slot::State& s) {
  auto folder = detached_tmpfs(s.limits.tmp_bytes, pool.switch_uid ? std::optional(s.place->uid) : std::nullopt);
  if (!folder) return tl::unexpected(folder.error());
  auto status = make_pipe();
  if (!status) return tl::unexpected(status.error());
  auto life = make_pipe();
  if (!life) return tl::unexpected(life.error());
  SpawnSpec spec;
  spec.executable = pool.init_executable.get();
  spec.argv = {"keck-init", "box",
               line("version", kSpecVersion) + "life_fd=0\nstatus_fd=1\nroot_fd=2\nnet_fd=3\ntmp_fd=4\n"};
  spec.fds = {(*life)[0].get(), (*status)[1].get(), pool.root_ns.get(), s.place->net.get(), folder->get()};
  spec.namespaces = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
  auto init = spawn(spec);
  if (!init) return tl::unexpected(init.error());
  s.init = std::move(*init);
  s.lifeline = std::move((*life)[1]);
  s.folder = std::move(*folder);
  (*status)[1].reset();
  const auto report = first_report((*status)[0].get(), 10);
  if (!report) return tl::unexpected(report.error());
  if (!report->empty()) return fail("host", "a sandbox box can't be made: " + std::string(trim(report->substr(1))));
  return {};
}

}  // namespace

std::string SlotAccess::spec(const Slot& slot, bool program) {
  const Slot::State& s = *slot.state_;
  const SlotPool::Impl& pool = *slot.pool_.impl_;
  const Limits& limits = s.limits;
  std::string t = line("version", kSpecVersion);
  if (pool.boxes && !program) t += line("box_pid", static_cast<uint64_t>(s.init.pid));
  if (pool.switch_uid) t += line("uid", s.place->uid) + line("gid", s.place->uid);
  for (const auto& file : s.place->cgroup.procs_files()) t += line("cgroup", file);
  t += line("nofile", static_cast<uint64_t>(limits.open_files)) + line("fsize", limits.file_bytes) +
       line("stack", limits.stack_bytes) + line("cpu", static_cast<uint64_t>(limits.cpu_seconds + 0.999));
  if (!pool.cgroups.has_memory()) t += line("address", limits.memory_bytes);
  if (!pool.cgroups.has_pids()) {
    // RLIMIT_NPROC counts all tasks of a uid: only for a uid of its own is it the slot's.
    const uint64_t others = pool.switch_uid ? 0 : slot.pool_.impl_->own_uid_tasks();
    t += line("nproc", others + static_cast<uint64_t>(limits.processes));
  }
  const bool processes = program || (limits.allow_processes && pool.boxes);
  t += line("processes", processes ? 1 : 0);
  if (pool.boxes) return t + "cwd=/tmp\n";
  const Capabilities& caps = pool.options.capabilities;
  // A compiler driver signals its own children, whose pids nobody knows here; a child of the zygote only itself.
  t += line("foreign_signals", program && caps.landlock_abi >= kLandlockScopes ? 1 : 0);
  t += line("cwd", s.scratch->path().string());
  if (caps.landlock_abi == 0) return t;
  t += "landlock=1\n" + line("read_write", s.scratch->path().string());
  for (const Bind& bind : pool.options.read_only) t += line("read_only", bind.from.string());
  return t;
}

Result<std::unique_ptr<Slot>> SlotPool::acquire(const Limits& limits) {
  auto place = impl_->take_place();
  if (!place) return tl::unexpected(place.error());
  std::unique_ptr<Slot> slot(new Slot(*this));  // from here on its destructor cleans up
  Slot::State& s = *slot->state_;
  s.place = std::move(*place);
  s.limits = limits;
  slot->uid_ = s.place->uid;
  if (s.place->cgroup.usable()) KZ_TRY(s.place->cgroup.begin(limits.memory_bytes, limits.processes, limits.cpus));
  if (impl_->boxes) {
    KZ_TRY(start_box(*impl_, s));
  } else {
    auto scratch = TempDir::make(impl_->scratch->path(), "slot-");
    if (!scratch) return tl::unexpected(scratch.error());
    if (impl_->switch_uid && ::chown(scratch->path().c_str(), s.place->uid, s.place->uid) != 0) {
      return fail("host", "cannot give a private folder to its uid: " + errno_text(errno));
    }
    s.scratch = std::move(*scratch);
  }
  slot->child_spec_ = SlotAccess::spec(*slot, /*program=*/false);
  if (slot->child_spec_.size() >= kSpecBytes) return fail("config", "too many folders for the sandbox");
  return slot;
}

Slot::Slot(SlotPool& pool) : pool_(pool), state_(std::make_unique<State>()) {}

Slot::~Slot() {
  const Status killed = kill_all();
  SlotPool::Impl& pool = *pool_.impl_;
  if (!killed) {
    // Its uid and groups must not meet another candidate: this place is out of service until the daemon restarts.
    log::error("sandbox slot " + std::to_string(state_->place->index) + " is given up: " + killed.error().message);
    (void)state_->place.release();  // NOLINT: leaked on purpose, its folders hold processes
  }
  pool.give_back(std::move(state_->place), std::move(state_->init));
}

Level Slot::level() const { return pool_.level(); }

void Slot::adopt(pid_t pid) {
  state_->child = pid;
  state_->child_pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

Status Slot::kill_all(double timeout_s) {
  State& s = *state_;
  const Stopwatch watch;
  const auto left = [&] { return std::max(0.0, timeout_s - watch.seconds()); };
  const auto stuck = [] { return fail("timeout", "a killed process did not end (is it waiting for a device?)"); };
  Cgroup& group = s.place->cgroup;
  const bool at_once = group.usable() && group.kill();
  if (s.init.pid > 0) {
    // The end of PID 1 is the end of all that was ever started in the box.
    ::syscall(SYS_pidfd_send_signal, s.init.pidfd.get(), SIGKILL, nullptr, 0);
    s.lifeline.reset();
  }
  if (s.child_pidfd) ::syscall(SYS_pidfd_send_signal, s.child_pidfd.get(), SIGKILL, nullptr, 0);
  if (group.usable()) {
    while (!group.wait_empty(at_once ? left() : std::min(left(), 0.02))) {
      if (left() <= 0) return stuck();
      if (!at_once) group.signal_all(SIGKILL), (void)group.thaw();
    }
  }
  if (s.child_pidfd) {
    pollfd fd{s.child_pidfd.get(), POLLIN, 0};
    if (::poll(&fd, 1, static_cast<int>(left() * 1000)) == 0) return stuck();
    s.child_pidfd.reset();
  }
  // Without a group only the end of PID 1 tells; it comes once the zygote has reaped its child.
  if (s.init.pid > 0 && !group.usable()) {
    if (!reap(s.init, left())) return stuck();
    s.init = {};
  }
  s.killed = true;
  return {};
}

Status Slot::freeze(double timeout_s) {
  if (state_->place->cgroup.usable()) {
    if (auto done = state_->place->cgroup.freeze(timeout_s); done || done.error().code != "host") return done;
  }
  if (!state_->child_pidfd) return fail("host", "nothing to freeze");
  ::syscall(SYS_pidfd_send_signal, state_->child_pidfd.get(), SIGSTOP, nullptr, 0);
  const Stopwatch watch;
  while (!all_stopped(state_->child)) {
    if (watch.seconds() > timeout_s) return fail("freeze_timeout", "the child of a slot did not stop in time");
    ::usleep(50);
  }
  return {};
}

Status Slot::thaw() {
  if (state_->place->cgroup.usable() && state_->place->cgroup.thaw()) return {};
  if (!state_->child_pidfd) return fail("host", "nothing to thaw");
  ::syscall(SYS_pidfd_send_signal, state_->child_pidfd.get(), SIGCONT, nullptr, 0);
  return {};
}

double Slot::cpu_seconds() const {
  const double seconds = state_->place->cgroup.usable() ? state_->place->cgroup.cpu_seconds() : -1;
  if (seconds >= 0 || state_->child <= 0) return std::max(seconds, 0.0);
  clockid_t clock{};
  timespec t{};
  if (::clock_getcpuclockid(state_->child, &clock) != 0 || ::clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

uint64_t Slot::memory_peak() const { return state_->place->cgroup.memory_peak(); }

uint64_t Slot::oom_kills() const {
  const Cgroup& group = state_->place->cgroup;
  return group.usable() && group.near_limit() ? group.oom_kills() : 0;
}

bool Slot::killed_by_host() const {
  const Cgroup& group = state_->place->cgroup;
  return group.usable() && group.oom_kills() > 0 && !group.near_limit();
}

bool Slot::empty() const {
  if (state_->place->cgroup.usable()) return state_->place->cgroup.empty();
  if (!state_->child_pidfd) return true;
  pollfd fd{state_->child_pidfd.get(), POLLIN, 0};
  return ::poll(&fd, 1, 0) > 0;
}

}  // namespace kz::keck::sandbox
