// The daemon's end of a judge process.
#include "keck/judge/judge.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "keck/judge/control.h"
#include "keck/judge/task_audits.h"

namespace kz::keck {
namespace {

constexpr double kStartSeconds = 20;
constexpr double kGrace = 10;  // beyond a job's own deadline, before its judge counts as hung
constexpr int kPollMs = 50;    // how often cancellation is looked at

// The daemon's environment may hold its token; a judge needs next to nothing.
std::vector<std::string> small_environment() {
  std::vector<std::string> out;
  for (const char* name :
       {"PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) out.push_back(std::string(name) + "=" + value);
  }
  return out;
}

Result<pid_t> spawn(const fs::path& program, int control, int cpu) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, control, kControlFd);
  std::string name = program.string(), core = std::to_string(cpu);
  char* argv[] = {name.data(), core.data(), nullptr};
  std::vector<std::string> environment = small_environment();
  std::vector<char*> envp;
  envp.reserve(environment.size() + 1);
  for (std::string& entry : environment) envp.push_back(entry.data());
  envp.push_back(nullptr);
  pid_t pid = -1;
  const int rc = posix_spawn(&pid, name.c_str(), &actions, nullptr, argv, envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (rc != 0) return fail("judge", "cannot start " + name + ": " + errno_text(rc));
  return pid;
}

class ProcessJudge final : public Judge {
 public:
  ProcessJudge(pid_t pid, Fd control, std::shared_ptr<TaskAudits> audits)
      : pid_(pid), control_(std::move(control)), audits_(std::move(audits)) {}
  ~ProcessJudge() override { kill_now(); }

  bool alive() const override { return pid_ > 0; }
  int pid() const override { return pid_; }

  Status await_ready() {
    auto frame = receive(steady_seconds() + kStartSeconds);
    if (frame && frame->header.type == static_cast<uint16_t>(ControlType::kReady)) return {};
    kill_now();
    return fail("judge", "keck-judge did not start" + (frame ? std::string() : ": " + frame.error().message));
  }

  Result<JudgeReport> run(const JudgeJob& job, const JudgeChildren& children, const JudgeCallbacks& callbacks,
                          const std::atomic<bool>& cancelled) override {
    if (!alive()) return fail("judge", "this judge is gone");
    auto result = supervise(job, children, callbacks, cancelled);
    // After any trouble the process is in an unknown state: the next job gets a new one.
    if (!result && result.error().code == "judge") kill_now();
    return result;
  }

 private:
  Result<JudgeReport> supervise(const JudgeJob& job, const JudgeChildren& children, const JudgeCallbacks& callbacks,
                                const std::atomic<bool>& cancelled) {
    ControlJob control;
    control.job = job;
    control.reference_pid = children.reference.pid;
    control.candidate_pid = children.candidate.pid;
    control.audit = children.audit.present() || callbacks.audit_child;
    const std::string key = job.task_key.empty() ? "" : job.check + "/" + job.task_key;
    if (!key.empty()) control.known = audits_->find(key);
    KZ_TRY(send(ControlType::kJob, to_json(control), {children.reference.fd, children.candidate.fd}));

    double deadline = steady_seconds() + job.deadline_s + kGrace;
    std::shared_ptr<void> lease;
    JudgeChild audit = children.audit;
    bool cut = false;
    while (true) {
      if (cancelled && !cut) {
        // The judge sees the candidate's end close and winds up; the reference may go on living.
        ::shutdown(children.candidate.fd, SHUT_RDWR);
        if (audit.present()) ::shutdown(audit.fd, SHUT_RDWR);
        cut = true;
        deadline = std::min(deadline, steady_seconds() + job.call_s + kGrace);
      }
      if (steady_seconds() > deadline) return fail("judge", "the judge hangs");
      pollfd readable{control_.get(), POLLIN, 0};
      if (::poll(&readable, 1, kPollMs) <= 0) continue;
      auto frame = receive(steady_seconds() + kGrace);
      if (!frame) return fail("judge", "the judge died: " + frame.error().message);
      switch (static_cast<ControlType>(frame->header.type)) {
        case ControlType::kReport:
          if (cut) return fail("cancelled", "cancelled");
          return take_report(frame->payload, key);
        case ControlType::kNeedLease: {
          const Stopwatch waiting;
          if (callbacks.timing_lease && !cut) lease = callbacks.timing_lease();
          deadline += waiting.seconds();
          KZ_TRY(send(ControlType::kLease, {{"granted", !callbacks.timing_lease || lease != nullptr}}, {}));
          break;
        }
        case ControlType::kNeedAudit: {
          const Stopwatch waiting;
          if (!audit.present() && callbacks.audit_child && !cut) audit = callbacks.audit_child();
          deadline += waiting.seconds();
          std::vector<int> fds;
          if (audit.present()) fds.push_back(audit.fd);
          KZ_TRY(send(ControlType::kAuditChild, {{"pid", audit.pid}}, fds));
          break;
        }
        default:
          return fail("judge", "the judge sent a frame out of turn");
      }
    }
  }

  Result<JudgeReport> take_report(const std::string& payload, const std::string& key) {
    auto json = parse_json(payload, "judge report");
    if (!json) return fail("judge", json.error().message);
    auto result = session_result_from_json(*json);
    if (!result) return fail("judge", result.error().message);
    if (!key.empty() && result->task_audit) audits_->put(key, *result->task_audit);
    return std::move(result->report);
  }

  Status send(ControlType type, const Json& json, const std::vector<int>& fds) {
    FrameHeader header;
    header.type = static_cast<uint16_t>(type);
    auto sent = send_frame(control_.get(), header, dump_json(json), fds, steady_seconds() + kGrace);
    if (!sent) return fail("judge", "the judge died: " + sent.error().message);
    return {};
  }

  Result<Frame> receive(double deadline) { return receive_frame(control_.get(), kMaxFrame, deadline); }

  void kill_now() noexcept {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    control_.reset();
  }

  pid_t pid_;
  Fd control_;
  std::shared_ptr<TaskAudits> audits_;
};

}  // namespace

Result<std::unique_ptr<Judge>> Judge::start(const Layout& layout, const JudgeOptions& options) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail("judge", "socketpair: " + errno_text(errno));
  Fd ours(ends[0]), theirs(ends[1]);
  // dup2 onto itself would leave close-on-exec set.
  if (theirs.get() == kControlFd) theirs = Fd(::fcntl(kControlFd, F_DUPFD_CLOEXEC, kControlFd + 1));
  KZ_ASSIGN(const pid_t pid, spawn(layout.bin / "keck-judge", theirs.get(), options.cpu));
  theirs.reset();
  auto judge =
      std::make_unique<ProcessJudge>(pid, std::move(ours), options.audits ? options.audits : make_task_audits());
  KZ_TRY(judge->await_ready());
  return judge;
}

}  // namespace kz::keck
