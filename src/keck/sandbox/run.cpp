#include "keck/sandbox/run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "keck/sandbox/capture.h"
#include "keck/sandbox/slot_state.h"
#include "keck/sandbox/spec.h"

namespace kz::keck::sandbox {

struct RunAccess {
  static Slot& slot(PrivateDir& dir) { return *dir.slot_; }
};

namespace {

constexpr double kKillSeconds = 5;
constexpr int kPollMs = 50;  // how often cancellation and CPU time are looked at

Fd stdin_of(const RunSpec& spec) {
  if (spec.input.empty()) return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Fd file(::memfd_create("keck-stdin", MFD_CLOEXEC));
  if (file && ::write(file.get(), spec.input.data(), spec.input.size()) == static_cast<ssize_t>(spec.input.size())) {
    ::lseek(file.get(), 0, SEEK_SET);
  }
  return file;
}

std::vector<std::string> environment(const RunSpec& spec, const std::string& cwd) {
  std::vector<std::string> env = spec.env;
  for (const std::string& entry :
       {std::string("PATH=/usr/bin:/bin"), "HOME=" + cwd, "TMPDIR=" + cwd, std::string("LC_ALL=C")}) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    const auto set = [&](const std::string& e) { return e.rfind(name, 0) == 0; };
    if (std::none_of(env.begin(), env.end(), set)) env.push_back(entry);
  }
  return env;
}

// One started program with its pipes.
class Run {
 public:
  Run(SlotPool& pool, Slot& slot, const RunSpec& spec)
      : pool_(SlotAccess::impl(pool)),
        state_(SlotAccess::state(slot)),
        slot_(slot),
        spec_(spec),
        out_(spec.output_bytes),
        err_(spec.output_bytes) {}

  Status start(const std::string& cwd);
  Result<RunResult> wait();

 private:
  void drain(Fd& fd, Capture& into);
  void read_status();
  void look_at_limits();
  void kill();
  bool leftovers() const;
  bool killing() const { return result_.timed_out || result_.cancelled; }

  SlotPool::Impl& pool_;
  Slot::State& state_;
  Slot& slot_;
  const RunSpec& spec_;
  Spawned child_;
  Fd out_pipe_, err_pipe_, status_pipe_, lifeline_;
  Capture out_, err_;
  std::string report_;
  Stopwatch watch_;
  RunResult result_;
};

Status Run::start(const std::string& cwd) {
  if (spec_.argv.empty() || spec_.argv[0].empty() || spec_.argv[0][0] != '/') {
    return fail("config", "a confined program needs an absolute path");
  }
  if (state_.killed) return fail("host", "this private folder is closed: an earlier program in it had to be killed");
  const uint64_t tmp_bytes = state_.limits.tmp_bytes;
  state_.limits = spec_.limits;
  state_.limits.tmp_bytes = tmp_bytes;
  Cgroup& group = state_.place->cgroup;
  if (group.usable()) KZ_TRY(group.begin(spec_.limits.memory_bytes, spec_.limits.processes, spec_.limits.cpus));
  std::array<std::array<Fd, 2>, 4> pipes;
  for (auto& p : pipes) {
    auto made = make_pipe();
    if (!made) return tl::unexpected(made.error());
    p = std::move(*made);
  }
  auto& [out, err, status, life] = pipes;
  const Fd input = stdin_of(spec_);
  const bool box = pool_.boxes;
  std::string text = SlotAccess::spec(slot_, /*program=*/true) + "status_fd=3\n" + (box ? "box_fd=4\n" : "life_fd=4\n");
  SpawnSpec s;
  s.executable = pool_.init_executable.get();
  s.argv = {"keck-init", box ? "join" : "watch", text};
  s.argv.insert(s.argv.end(), spec_.argv.begin(), spec_.argv.end());
  s.env = environment(spec_, cwd);
  s.fds = {input.get(), out[1].get(), err[1].get(), status[1].get(), box ? state_.init.pidfd.get() : life[0].get()};
  if (box) {
    s.box = state_.init.pidfd.get();
    s.own_pid_ns = pool_.own_pid_ns.get();
  }
  auto child = spawn(s);
  if (!child) return tl::unexpected(child.error());
  child_ = std::move(*child);
  out_pipe_ = std::move(out[0]);
  err_pipe_ = std::move(err[0]);
  status_pipe_ = std::move(status[0]);
  lifeline_ = std::move(life[1]);
  for (const Fd* fd : {&out_pipe_, &err_pipe_, &status_pipe_}) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  return {};
}

void Run::drain(Fd& fd, Capture& into) {
  char block[1 << 16];
  // A bound a turn, so that a flood does not hide the deadline.
  for (int i = 0; fd && i < 16; ++i) {
    const ssize_t n = ::read(fd.get(), block, sizeof block);
    if (n > 0) into.add({block, static_cast<size_t>(n)});
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) fd.reset();
    if (n <= 0) return;
  }
}

void Run::read_status() {
  char block[1024];
  const ssize_t n = ::read(status_pipe_.get(), block, sizeof block);
  if (n > 0) report_.append(block, static_cast<size_t>(n));
  if (n == 0) status_pipe_.reset();
}

void Run::kill() {
  lifeline_.reset();  // keck-init watch kills what is below it
  const Cgroup& group = state_.place->cgroup;
  if (pool_.boxes) {
    if (!group.usable() || !state_.place->cgroup.kill()) {
      // No cgroup.kill: the box goes, and its folder is closed for further runs.
      ::syscall(SYS_pidfd_send_signal, state_.init.pidfd.get(), SIGKILL, nullptr, 0);
      state_.killed = true;
    }
    ::syscall(SYS_pidfd_send_signal, child_.pidfd.get(), SIGKILL, nullptr, 0);
  }
}

bool Run::leftovers() const {
  const Cgroup& group = state_.place->cgroup;
  if (group.usable()) return !group.empty();
  if (!pool_.boxes) return false;  // keck-init watch has seen to it
  const std::string pid = std::to_string(state_.init.pid);
  return !read_file("/proc/" + pid + "/task/" + pid + "/children", 1 << 20).value_or("").empty();
}

void Run::look_at_limits() {
  if (killing()) return;
  const double limit = spec_.limits.cpu_seconds;
  const bool cpu_over = limit > 0 && state_.place->cgroup.usable() && state_.place->cgroup.cpu_seconds() > limit;
  result_.timed_out = watch_.seconds() > spec_.wall_seconds || cpu_over;
  result_.cancelled = spec_.cancelled != nullptr && spec_.cancelled->load();
  if (killing()) kill();
}

Result<RunResult> Run::wait() {
  double killed_at = -1;
  for (bool ended = false; !ended;) {
    pollfd fds[] = {{child_.pidfd.get(), POLLIN, 0},
                    {out_pipe_.get(), POLLIN, 0},
                    {err_pipe_.get(), POLLIN, 0},
                    {status_pipe_.get(), POLLIN, 0}};
    const double left_ms = (spec_.wall_seconds - watch_.seconds()) * 1000 + 1;
    ::poll(fds, 4, static_cast<int>(std::clamp(left_ms, 0.0, static_cast<double>(kPollMs))));
    drain(out_pipe_, out_);
    drain(err_pipe_, err_);
    if (fds[3].revents != 0) read_status();
    ended = (fds[0].revents & POLLIN) != 0;
    if (!ended) look_at_limits();
    if (killing() && killed_at < 0) killed_at = watch_.seconds();
    if (killed_at >= 0 && watch_.seconds() > killed_at + kKillSeconds) {
      ::syscall(SYS_pidfd_send_signal, child_.pidfd.get(), SIGKILL, nullptr, 0);
      return fail("host", "a confined program did not end after it was killed");
    }
  }
  int status = 0;
  reap(child_, 1, &status, &result_.cpu_seconds);
  result_.wall_seconds = watch_.seconds();
  Cgroup& group = state_.place->cgroup;
  if (leftovers()) {
    kill();
    if (group.usable() && !group.wait_empty(kKillSeconds)) {
      return fail("host", "a confined program left a process that does not end");
    }
  }
  // The writers are dead or dying: what is in the pipes is all there is.
  while ((out_pipe_ || err_pipe_) && watch_.seconds() < result_.wall_seconds + kKillSeconds) {
    drain(out_pipe_, out_);
    drain(err_pipe_, err_);
    if (out_pipe_ || err_pipe_) ::usleep(200);
  }
  while (status_pipe_ && report_.size() < 4096) read_status();
  // "H…\n" or "X…\n" of the process that should have become the program, then "S" and the wait status of `watch`.
  const size_t line = report_.find('\n');
  if (line != std::string::npos && report_[0] != 'S') {
    const std::string text = report_.substr(1, line - 1);
    if (report_[0] == 'H') return fail("host", "the sandbox of a program failed: " + text);
    err_.add("cannot execute " + text + "\n");
    report_.erase(0, line + 1);
  }
  if (report_.size() > sizeof status && report_[0] == 'S') std::memcpy(&status, report_.data() + 1, sizeof status);
  if (WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
  if (group.usable()) {
    if (const double seconds = group.cpu_seconds(); seconds > 0)
      result_.cpu_seconds = std::max(seconds, result_.cpu_seconds);
    result_.oom = slot_.oom_kills() > 0;
    if (slot_.killed_by_host())
      return fail("host", "out of memory: the host killed a confined program; free some memory");
  }
  const double limit = spec_.limits.cpu_seconds;
  if (limit > 0 && (result_.signal == SIGXCPU || result_.cpu_seconds > limit)) result_.timed_out = true;
  result_.out = out_.text();
  result_.err = err_.text();
  return result_;
}

}  // namespace

Result<RunResult> run_confined(SlotPool& pool, const RunSpec& spec) {
  if (spec.dir == nullptr) {
    auto dir = PrivateDir::make(pool, spec.limits.tmp_bytes);
    if (!dir) return tl::unexpected(dir.error());
    RunSpec with_dir = spec;
    with_dir.dir = &*dir;
    return run_confined(pool, with_dir);
  }
  Run run(pool, RunAccess::slot(*spec.dir), spec);
  KZ_TRY(run.start(spec.dir->inside()));
  return run.wait();
}

}  // namespace kz::keck::sandbox
