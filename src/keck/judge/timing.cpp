#include "keck/judge/timing.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/random.h"
#include "keck/judge/handover.h"
#include "keck/judge/run_queue.h"
#include "keck/judge/statistics.h"
#include "keck/judge/tensor.h"
#include "keck/judge/transform.h"

namespace kz::keck {
namespace {

constexpr double kSmallBudget = 0.05;   // seconds of calls for modules that are quick
constexpr double kCheapDraw = 600e-6;   // one get_inputs, seconds
constexpr double kWorthWarming = 2e-3;  // a longer call finds its caches cold anyway
constexpr int kAdaptingCalls = 12;
constexpr int kMostBlocks = 6, kFewestBlocks = 3;
constexpr double kDelayShare = 0.01, kDelayFixed = 25e-6;  // run-queue delay that a reading may hold
constexpr double kIdleWork = 20e-6;                        // of the other side during a call
constexpr double kLeastFloor = 1e-6, kChildrenDiffer = 0.02;

struct Side {
  Peer& peer;
  RunQueue queue;
  std::vector<double> kept;  // undisturbed readings, seconds
  int calls = 0;

  explicit Side(Peer& p) : peer(p), queue(p.pid()) {}
  void forget() { kept.clear(), calls = 0; }
};

struct Reading {
  double seconds = 0;
  bool disturbed = false;
  Value output, inputs_after;
};

class Clock {
 public:
  Clock(Peer& reference, Peer& candidate, const TimingSetup& setup)
      : reference_(reference), candidate_(candidate), setup_(setup), rng_(derive_seed(setup.seed, "timing")) {}

  Step<Timing> run() {
    const double start = steady_seconds();
    KZ_TRY(pair(/*reference_first=*/true, /*null=*/true));  // first touches, not counted
    reference_.forget();
    candidate_.forget();
    nulls_.clear();
    pairs_.clear();
    // Python adapts its bytecode to a function within some ten calls; the reference has had many before this candidate
    // came.
    for (int i = 0; i < kAdaptingCalls && warm_ < kWorthWarming; ++i) {
      for (Side* side : {&reference_, &candidate_}) {
        if (const Status warmed = warm_up(*side); !warmed) return blame(*side, warmed.error());
      }
    }
    // Counts depend on the reference alone: a candidate that dawdles here gets no fewer.
    const double round = 2 * warm_;
    const int pairs = round * 4 * kFewestBlocks > setup_.budget_s ? 2 : 4;
    const int blocks =
        static_cast<int>(std::clamp<double>(kSmallBudget / std::max(round * pairs, 1e-6), kFewestBlocks, kMostBlocks));
    for (int b = 0; b < blocks; ++b) {
      if (b > 0 && steady_seconds() - start > setup_.budget_s) break;
      for (int p = 0; p < pairs; ++p) KZ_TRY(pair(p % 2 == 0, p == 0 || p + 1 == pairs));
    }
    return summary();
  }

 private:
  // Another input for both sides: drawn by the reference child while that is cheap; else only once a block, and between
  // that the last one with elements swapped.
  Step<Value> next_input() {
    const bool cheap = setup_.draw_seconds < kCheapDraw;
    if (!cheap && draws_++ % 4 != 0 && swap_some(base_, free_, rng_)) return base_;
    const uint64_t seed = derive_seed(setup_.seed, "timed", draws_++);
    const std::string payload(reinterpret_cast<const char*>(&seed), sizeof seed);
    KZ_BLAME(base_, reference_.peer.ask_value(FrameType::kInputs, 0, payload, -1, deadline()),
             blame_reference(reference_.peer, kz_error, "making inputs"));
    if (!cheap) free_ = free_tensors(base_);
    return base_;
  }

  Step<void> pair(bool reference_first, bool null) {
    KZ_ASSIGN(const Value inputs, next_input());
    const Handover handover(inputs);
    std::optional<Reading> expected, got;
    for (int turn = 0; turn < 2; ++turn) {
      const bool is_reference = (turn == 0) == reference_first;
      Side& side = is_reference ? reference_ : candidate_;
      Side& idle = is_reference ? candidate_ : reference_;
      if (warmer_ && warm_ < kWorthWarming) {
        const Status warmed = warm_up(side);
        if (!warmed) return blame(side, warmed.error());
      }
      auto reading = timed_call(side, idle, inputs, handover, 0);
      if (!reading) return blame(side, reading.error());
      if (is_reference) warm_ = reading->seconds;
      if (is_reference && null) {
        auto constant = timed_call(side, idle, inputs, handover, kCallNull);
        if (!constant) return blame(side, constant.error());
        if (!constant->disturbed) nulls_.push_back(constant->seconds);
      }
      ++side.calls;
      if (!reading->disturbed) side.kept.push_back(reading->seconds);
      auto released = side.peer.ask(FrameType::kRelease, 0, {}, -1, FrameType::kDone, deadline());
      if (!released) return blame(side, released.error());
      (is_reference ? expected : got) = std::move(*reading);
    }
    if (!expected->disturbed && !got->disturbed) pairs_.push_back({expected->seconds, got->seconds});
    warmer_.emplace(handover);
    const Comparison comparison = compare(expected->output, nullptr, got->output, inputs.items, setup_.compare);
    if (!comparison.equal) {
      return end(Outcome::kFail, Stage::kCompare, comparison.reason, comparison.message + " (a timed call)");
    }
    if (!setup_.mutates) return {};
    const Comparison after = compare(expected->inputs_after, nullptr, got->inputs_after, inputs.items, setup_.compare);
    if (!after.equal)
      return end(Outcome::kFail, Stage::kCompare, "input_mutated", after.message + " (inputs of a timed call)");
    return {};
  }

  tl::unexpected<Ending> blame(const Side& side, const Error& error) const {
    if (&side == &reference_) return blame_reference(side.peer, error, "being timed");
    return blame_candidate(side.peer, error, Stage::kRun, "being timed");
  }

  // A call on an input that both sides know already, so that the next one finds code and data of the module in the
  // caches.
  Status warm_up(Side& side) {
    KZ_ASSIGN(const Fd memory, warmer_->open());
    KZ_ASSIGN(const Frame called,
              side.peer.ask(FrameType::kCall, 0, warmer_->payload(), memory.get(), FrameType::kValue, deadline()));
    KZ_ASSIGN(const Frame released, side.peer.ask(FrameType::kRelease, 0, {}, -1, FrameType::kDone, deadline()));
    return {};
  }

  // Run-queue delays and processor time so far, seconds.
  struct Usage {
    double side_delay, own_delay, side_work, own_work, idle_work;
  };
  Usage usage(const Side& side, const Side& idle) const {
    timespec own{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    return {side.queue.delay_seconds(), own_queue_.delay_seconds(), side.peer.cpu_seconds(),
            static_cast<double>(own.tv_sec) + static_cast<double>(own.tv_nsec) * 1e-9, idle.peer.cpu_seconds()};
  }

  Result<Reading> timed_call(Side& side, const Side& idle, const Value& inputs, const Handover& handover,
                             uint16_t flags) {
    KZ_ASSIGN(const Fd memory, handover.open());
    const double limit = deadline();
    Reading out;
    // Lets the child get back to its socket if it shares our core: else its way there would be read as delay.
    ::sched_yield();
    const Usage before = usage(side, idle);
    const double begin = steady_seconds();
    KZ_ASSIGN(const Frame frame,
              side.peer.ask(FrameType::kCall, flags, handover.payload(), memory.get(), FrameType::kValue, limit));
    KZ_ASSIGN(out.output, parse_value(frame.payload, side.peer.limits()));
    KZ_TRY(side.peer.snapshot(out.output, buffers_));
    out.seconds = std::max(steady_seconds() - begin, 0.0);
    const Usage after = usage(side, idle);
    // On one core each of the two waits while the other runs; what is left of the waiting is somebody else's work.
    const double foreign = std::max((after.side_delay - before.side_delay) - (after.own_work - before.own_work), 0.0) +
                           std::max((after.own_delay - before.own_delay) - (after.side_work - before.side_work), 0.0);
    const double slack = kDelayShare * out.seconds;
    out.disturbed = foreign > slack + kDelayFixed || after.idle_work - before.idle_work > slack + kIdleWork;
    KZ_TRY(side.peer.settle(out.output, buffers_));
    if (setup_.mutates) {
      out.inputs_after = inputs;
      KZ_TRY(handover.read_back(memory.get(), out.inputs_after));
    }
    return out;
  }

  Timing summary() {
    Timing out;
    out.method = reference_.peer.copies() || candidate_.peer.copies() ? "gated_cpu_copied" : "gated_cpu";
    out.first_call_ms = setup_.first_call_ms;
    const double constant = median(nulls_);
    std::vector<double> off;
    off.reserve(nulls_.size());
    for (double n : nulls_) off.push_back(std::fabs(n - constant));
    for (PairReading& p : pairs_) p = {p.reference - constant, p.candidate - constant};
    const auto net_ms = [&](const std::vector<double>& readings) {
      std::vector<double> net;
      net.reserve(readings.size());
      for (double r : readings) net.push_back(std::max(r - constant, 0.0) * 1e3);
      return spread(net);
    };
    out.candidate_ms = net_ms(candidate_.kept);
    out.eager_ms = net_ms(reference_.kept);
    Resolution resolution;
    // Two children of one module differ by about two hundredths (fresh pages, a younger interpreter).
    resolution.floor_s = std::max(kLeastFloor, kChildrenDiffer * out.eager_ms.median * 1e-3);
    // Twice the standard error of a median, from the median deviation.
    resolution.common_s =
        2 * 1.25 * 1.48 * median(off) / std::sqrt(std::max<double>(static_cast<double>(off.size()), 1));
    const SpeedupEstimate estimate = estimate_speedup(pairs_, resolution, setup_.delta);
    out.speedup = estimate.speedup;
    out.ci95[0] = estimate.low;
    out.ci95[1] = estimate.high;
    out.resolution_us = (resolution.floor_s + resolution.common_s) * 1e6;
    const auto enough_of = [](const Side& side) { return 2 * side.kept.size() >= static_cast<size_t>(side.calls); };
    const bool enough = enough_of(reference_) && enough_of(candidate_) && !nulls_.empty();
    out.decision = enough ? estimate.decision : Decision::kAmbiguous;
    return out;
  }

  double deadline() const { return std::min(setup_.deadline, steady_seconds() + setup_.call_s); }

  Side reference_, candidate_;
  const TimingSetup& setup_;
  std::optional<Handover> warmer_;  // the last pair's input
  Value base_;                      // the last input, and which of its tensors may be changed
  std::vector<bool> free_;
  Rng rng_;
  RunQueue own_queue_{0};
  std::vector<double> nulls_;  // readings of empty calls
  std::vector<PairReading> pairs_;
  std::vector<std::string> buffers_;  // outputs' raw bytes, touched before they count
  double warm_ = 0;
  uint64_t draws_ = 0;
};

}  // namespace

Step<Timing> time_pair(Peer& reference, Peer& candidate, const TimingSetup& setup) {
  const Undisturbed undisturbed(setup.cpu == -1 ? ::sched_getcpu() : setup.cpu, {0, reference.pid(), candidate.pid()});
  return Clock(reference, candidate, setup).run();
}

}  // namespace kz::keck
