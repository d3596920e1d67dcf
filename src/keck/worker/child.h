// One child as the daemon sees it: a slot, a forked Python process in it, its channel, its builds and its output.
// Not thread-safe; killed with everything that it started when its handle goes.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/json.h"
#include "keck/judge/judge.h"
#include "keck/judge/protocol.h"
#include "keck/sandbox/slot.h"
#include "keck/worker/build_service.h"
#include "keck/worker/fields.h"
#include "keck/worker/zygote.h"

namespace kz::keck {

// How a child ended, once it has.
struct ChildEnd {
  enum class How { kKilled, kExited, kSignalled, kMemory, kFlood, kProtocol, kOrphaned };
  How how =
      How::kKilled;  // kKilled: by us, it was alive; kOrphaned: the zygote died and took it along, a fault of the host
  int code = 0;      // exit status or signal
  std::string log;   // head and tail of its output
  double cpu_seconds = 0;  // of everything that ran in its slot
  uint64_t memory_peak = 0;
  BuildTotals builds;
};
// "killed by SIGSEGV", "exited with status 1"; reason code beside it: "crash" "exit" "memory" "output_flood"
// "protocol".
std::string describe(const ChildEnd& end);
std::string reason_of(const ChildEnd& end);

struct ChildHost {
  std::shared_ptr<Zygote> zygote;
  sandbox::SlotPool& slots;
  BuildService::Build build;
  BuildLimits build_limits = {};
};

class Child {
 public:
  // Error "host": no slot, no fork.
  static Result<std::unique_ptr<Child>> start(const ChildHost& host, const sandbox::Limits& limits);
  ~Child();
  Child(const Child&) = delete;

  // Waits for kUp, sends kLoad and waits for kLoaded. Time in builds does not count against timeout_s. Errors of the
  // source: "timeout", "died" (end() says how), "protocol". Ours: "host", "cancelled".
  Result<Json> load(const Json& request, double timeout_s, const std::atomic<bool>& cancelled,
                    size_t max_reply = 256 << 10);

  // For the judge, once load() has answered ok.
  JudgeChild judge_child() const { return {channel_.get(), forked_.pid}; }
  bool alive(int wait_ms = 0) const;  // the process has not ended, nor does it within wait_ms
  double cpu_seconds() const;         // so far
  const BuildService& service() const { return *service_; }

  // Kills what is left and says how it was. Later calls give the same answer.
  const ChildEnd& end();

 private:
  Child() = default;
  Result<Frame> next(double timeout_s, const std::atomic<bool>& cancelled, size_t max_reply);
  std::shared_ptr<Zygote> zygote_;
  std::unique_ptr<sandbox::Slot> slot_;
  Fd channel_;
  Forked forked_;
  std::unique_ptr<BuildService> service_;
  bool ended_ = false, hung_up_ = false;
  ChildEnd end_;
};

}  // namespace kz::keck
