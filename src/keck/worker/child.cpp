#include "keck/worker/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "keck/judge/protocol.h"

namespace kz::keck {
namespace {

constexpr double kSendSeconds = 10;
constexpr double kReplySeconds = 5;  // from the first byte of a reply to its last
constexpr double kExitSeconds = 10;  // for the zygote to report a death
constexpr double kUpSeconds = 60;    // fork and confinement, on a busy host
constexpr int kDyingMs = 500;
constexpr int kTickMs = 100;  // how soon a cancellation is seen

bool readable(int fd, int wait_ms = 0) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, wait_ms) > 0;
}

struct Pair {
  Fd ours, theirs;
};
Result<Pair> socket_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return fail("host", "socketpair: " + errno_text(errno));
  return Pair{Fd(fds[0]), Fd(fds[1])};
}

}  // namespace

std::string reason_of(const ChildEnd& end) {
  switch (end.how) {
    case ChildEnd::How::kMemory:
      return "memory";
    case ChildEnd::How::kFlood:
      return "output_flood";
    case ChildEnd::How::kProtocol:
      return "protocol";
    case ChildEnd::How::kSignalled:
      return "crash";
    default:
      return "exit";
  }
}

std::string describe(const ChildEnd& end) {
  switch (end.how) {
    case ChildEnd::How::kKilled:
      return "ended by Keck";
    case ChildEnd::How::kMemory:
      return "ran out of memory";
    case ChildEnd::How::kOrphaned:
      return "died with the zygote";
    case ChildEnd::How::kFlood:
      return "wrote more output than allowed";
    case ChildEnd::How::kProtocol:
      return "broke the protocol";
    case ChildEnd::How::kExited:
      return "exited with status " + std::to_string(end.code);
    case ChildEnd::How::kSignalled: {
      const char* name = sigabbrev_np(end.code);
      return name != nullptr ? std::string("killed by SIG") + name : "killed by signal " + std::to_string(end.code);
    }
  }
  return "";
}

Result<std::unique_ptr<Child>> Child::start(const ChildHost& host, const sandbox::Limits& limits) {
  auto child = std::unique_ptr<Child>(new Child());
  child->zygote_ = host.zygote;
  KZ_ASSIGN(child->slot_, host.slots.acquire(limits));
  KZ_ASSIGN(Pair channel, socket_pair());
  KZ_ASSIGN(Pair build, socket_pair());
  int log[2];
  if (pipe2(log, O_CLOEXEC) != 0) return fail("host", "pipe: " + errno_text(errno));
  Fd log_read(log[0]), log_write(log[1]);
  KZ_ASSIGN(child->forked_,
            host.zygote->fork(child->slot_->child_spec(), channel.theirs.get(), build.theirs.get(), log_write.get()));
  child->slot_->adopt(child->forked_.pid);
  child->channel_ = std::move(channel.ours);
  const int pidfd = child->forked_.pidfd.get();
  child->service_ =
      std::make_unique<BuildService>(std::move(build.ours), std::move(log_read), host.build_limits, host.build,
                                     [pidfd] { ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0); });
  return child;
}

Child::~Child() { end(); }

bool Child::alive(int wait_ms) const { return !ended_ && !readable(forked_.pidfd.get(), wait_ms); }

double Child::cpu_seconds() const { return ended_ ? end_.cpu_seconds : slot_->cpu_seconds(); }

Result<Frame> Child::next(double timeout_s, const std::atomic<bool>& cancelled, size_t max_reply) {
  const double start = steady_seconds();
  for (;;) {
    pollfd fds[2] = {{channel_.get(), POLLIN, 0}, {forked_.pidfd.get(), POLLIN, 0}};
    ::poll(fds, 2, kTickMs);
    if (fds[0].revents != 0) break;
    // The last words may have come with the death: look once more.
    if (fds[1].revents != 0 && !readable(channel_.get())) return fail("died", "the child ended");
    if (cancelled) return fail("cancelled", "cancelled");
    if (steady_seconds() - start - service_->build_seconds() > timeout_s)
      return fail("timeout", "did not load within " + std::to_string(static_cast<int>(timeout_s)) + " s");
  }
  auto frame = receive_frame(channel_.get(), max_reply, steady_seconds() + kReplySeconds);
  if (frame && !frame->fds.empty()) return fail("protocol", "a frame with descriptors");
  if (frame) return frame;
  hung_up_ = frame.error().code == "closed";
  return fail(hung_up_ ? "died" : "protocol", frame.error().message);
}

Result<Json> Child::load(const Json& request, double timeout_s, const std::atomic<bool>& cancelled, size_t max_reply) {
  auto up = next(kUpSeconds, cancelled, 0);
  if (!up || up->header.type != static_cast<uint16_t>(WorkerFrame::kUp)) {
    if (!up && up.error().code == "cancelled") return tl::unexpected(up.error());
    end();
    return fail("host", "a child did not come up: " + (end_.log.empty() ? describe(end_) : end_.log));
  }
  if (auto sent = send_frame(channel_.get(), {.type = static_cast<uint16_t>(WorkerFrame::kLoad)}, dump_json(request),
                             {}, steady_seconds() + kSendSeconds);
      !sent)
    return fail(sent.error().code == "closed" ? "died" : "host", sent.error().message);
  auto frame = next(timeout_s, cancelled, max_reply);
  if (!frame) return tl::unexpected(frame.error());
  if (frame->header.type != static_cast<uint16_t>(WorkerFrame::kLoaded))
    return fail("protocol",
                "a frame of type " + std::to_string(frame->header.type) + " in place of the load's outcome");
  auto body = parse_json(frame->payload, "child");
  if (!body || !body->is_object()) return fail("protocol", "the load's outcome is no JSON object");
  return body;
}

const ChildEnd& Child::end() {
  if (ended_) return end_;
  ended_ = true;
  if (!service_) return end_;  // never started
  // A socket closes a moment before its process is dead.
  const bool by_itself = readable(forked_.pidfd.get(), hung_up_ ? kDyingMs : 0);
  if (!by_itself) ::syscall(SYS_pidfd_send_signal, forked_.pidfd.get(), SIGKILL, nullptr, 0);
  if (auto killed = slot_->kill_all(); !killed) log::warn("slot: " + killed.error().message);
  ::shutdown(channel_.get(), SHUT_RDWR);
  service_->stop();
  end_.log = service_->log_text();
  end_.builds = service_->totals();
  end_.memory_peak = slot_->memory_peak();
  const auto exited = zygote_->wait_exit(forked_.id, kExitSeconds);
  end_.cpu_seconds = std::max(slot_->cpu_seconds(), exited ? exited->cpu_seconds : 0.0);
  if (by_itself && !exited) {
    end_.how = ChildEnd::How::kOrphaned;
  } else if (service_->flooded()) {
    end_.how = ChildEnd::How::kFlood;
  } else if (!service_->violation().empty()) {
    end_.how = ChildEnd::How::kProtocol;
  } else if (slot_->oom_kills() > 0) {
    end_.how = ChildEnd::How::kMemory;
  } else if (by_itself && exited) {
    const bool signalled = WIFSIGNALED(exited->status);
    end_.how = signalled ? ChildEnd::How::kSignalled : ChildEnd::How::kExited;
    end_.code = signalled ? WTERMSIG(exited->status) : WEXITSTATUS(exited->status);
  }
  slot_.reset();
  return end_;
}

}  // namespace kz::keck
