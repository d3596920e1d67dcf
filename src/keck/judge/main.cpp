// keck-judge: serves one job after the other on its control socket (descriptor 3) until the daemon closes it.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/clock.h"
#include "base/log.h"
#include "keck/judge/control.h"

namespace kz::keck {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr double kGrace = 120;  // seconds that the daemon may take to bring up a child; a lease may take any time

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Status send(ControlType type, const Json& json) {
  FrameHeader header;
  header.type = static_cast<uint16_t>(type);
  return send_frame(kControlFd, header, dump_json(json), {}, kForever);
}

Result<Frame> receive(ControlType type, double deadline) {
  KZ_ASSIGN(Frame frame, receive_frame(kControlFd, kMaxFrame, deadline));
  if (frame.header.type != static_cast<uint16_t>(type)) return fail("judge", "the daemon sent a frame out of turn");
  return frame;
}

std::optional<JudgeChild> ask_for_audit_child() {
  if (!send(ControlType::kNeedAudit, Json::object())) return std::nullopt;
  auto frame = receive(ControlType::kAuditChild, steady_seconds() + kGrace);
  if (!frame || frame->fds.size() != 1) return std::nullopt;
  const auto json = parse_json(frame->payload, "audit child");
  if (!json) return std::nullopt;
  JudgeChild child;
  child.fd = frame->fds[0].release();
  child.pid = json->value("pid", -1);
  return child;
}

bool ask_for_lease() {
  if (!send(ControlType::kNeedLease, Json::object())) return false;
  const auto frame = receive(ControlType::kLease, kForever);
  const auto json = frame ? parse_json(frame->payload, "lease") : fail("judge", "");
  return json && json->value("granted", false);
}

Status serve_one(int cpu) {
  KZ_ASSIGN(Frame frame, receive(ControlType::kJob, kForever));
  KZ_ASSIGN(const Json json, parse_json(frame.payload, "job"));
  KZ_ASSIGN(const ControlJob control, control_job_from_json(json));
  if (frame.fds.size() != 2) return fail("judge", "a job without its two children");
  const double before = cpu_seconds();
  SessionHooks hooks;
  hooks.timing_lease = ask_for_lease;
  if (control.audit) hooks.audit_child = ask_for_audit_child;
  hooks.cpu = cpu;
  SessionResult result =
      Session(control.job, Peer(std::move(frame.fds[0]), control.reference_pid, control.job.max_bytes),
              Peer(std::move(frame.fds[1]), control.candidate_pid, control.job.max_bytes), std::move(hooks),
              control.known)
          .run();
  result.report.judge_cpu_s = cpu_seconds() - before;
  return send(ControlType::kReport, to_json(result));
}

int run(int cpu) {
  log::set_name("judge");
  // Children of the same user must not look into this process.
  prctl(PR_SET_DUMPABLE, 0);
  fcntl(kControlFd, F_SETFD, FD_CLOEXEC);
  if (!send(ControlType::kReady, Json::object())) return EXIT_FAILURE;
  while (true) {
    const Status status = serve_one(cpu);
    if (status) continue;
    if (status.error().code == "closed") return EXIT_SUCCESS;
    log::error(status.error().message);
    return EXIT_FAILURE;
  }
}

}  // namespace
}  // namespace kz::keck

int main(int argc, char** argv) { return kz::keck::run(argc > 1 ? std::atoi(argv[1]) : -1); }
