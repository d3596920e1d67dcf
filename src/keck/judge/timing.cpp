#include "keck/judge/timing.h"

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

constexpr double kSmallBudget = 0.05;  // seconds of calls for modules that are quick
constexpr double kCheapDraw = 600e-6;  // one get_inputs, seconds
constexpr int kMostBlocks = 12, kFewestBlocks = 3;
constexpr double kDelayShare = 0.01, kDelayFixed = 25e-6;  // run-queue delay that a reading may hold
constexpr double kIdleWork = 20e-6;                        // of the other side during a call
constexpr double kLeastFloor = 1e-6, kChildrenDiffer = 0.01;

struct Side {
  Peer& peer;
  RunQueue queue;
  std::vector<double> kept, block;  // readings, seconds
  int calls = 0;

  explicit Side(Peer& p) : peer(p), queue(p.pid()) {}
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
    const double round = reference_.block.empty() ? 0 : 2 * warm_;
    reference_.block.clear();
    candidate_.block.clear();
    nulls_.clear();
    const int pairs = round * 4 * kFewestBlocks > setup_.budget_s ? 2 : 4;
    const double affordable = std::max(kSmallBudget, 0.0) / std::max(round * pairs, 1e-6);
    const int blocks = static_cast<int>(std::clamp<double>(affordable, kFewestBlocks, kMostBlocks));
    for (int b = 0; b < blocks; ++b) {
      if (b > 0 && steady_seconds() - start > setup_.budget_s) break;
      for (int p = 0; p < pairs; ++p) KZ_TRY(pair(p % 2 == 0, p == 0 || p + 1 == pairs));
      close_block();
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
      auto reading = timed_call(side, idle, inputs, handover, 0);
      if (!reading) {
        if (is_reference) return blame_reference(side.peer, reading.error(), "being timed");
        return blame_candidate(side.peer, reading.error(), Stage::kRun, "being timed");
      }
      if (is_reference) warm_ = reading->seconds;
      if (is_reference && null) {
        auto constant = timed_call(side, idle, inputs, handover, kCallNull);
        if (!constant) return blame_reference(side.peer, constant.error(), "being timed");
        if (!constant->disturbed) nulls_.push_back(constant->seconds);
      }
      ++side.calls;
      if (!reading->disturbed) side.block.push_back(reading->seconds);
      auto released = side.peer.ask(FrameType::kRelease, 0, {}, -1, FrameType::kDone, deadline());
      if (!released) {
        if (is_reference) return blame_reference(side.peer, released.error(), "being timed");
        return blame_candidate(side.peer, released.error(), Stage::kRun, "being timed");
      }
      (is_reference ? expected : got) = std::move(*reading);
    }
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

  Result<Reading> timed_call(Side& side, const Side& idle, const Value& inputs, const Handover& handover,
                             uint16_t flags) {
    KZ_ASSIGN(const Fd memory, handover.open());
    const double limit = deadline();
    Reading out;
    const double work = idle.peer.cpu_seconds();
    const double waited = side.queue.delay_seconds() + own_queue_.delay_seconds();
    const double begin = steady_seconds();
    KZ_ASSIGN(const Frame frame,
              side.peer.ask(FrameType::kCall, flags, handover.payload(), memory.get(), FrameType::kValue, limit));
    KZ_ASSIGN(out.output, parse_value(frame.payload, side.peer.limits()));
    KZ_TRY(side.peer.snapshot(out.output, buffers_));
    out.seconds = std::max(steady_seconds() - begin, 0.0);
    const double delay = side.queue.delay_seconds() + own_queue_.delay_seconds() - waited;
    const double idle_work = idle.peer.cpu_seconds() - work;
    out.disturbed =
        delay > kDelayShare * out.seconds + kDelayFixed || idle_work > kIdleWork + kDelayShare * out.seconds;
    KZ_TRY(side.peer.settle(out.output, buffers_));
    if (setup_.mutates) {
      out.inputs_after = inputs;
      KZ_TRY(handover.read_back(memory.get(), out.inputs_after));
    }
    return out;
  }

  void close_block() {
    if (!reference_.block.empty() && !candidate_.block.empty()) {
      blocks_.push_back({median(reference_.block), median(candidate_.block)});
      if (!nulls_.empty()) null_blocks_.push_back(median(nulls_));
    }
    for (Side* side : {&reference_, &candidate_}) {
      side->kept.insert(side->kept.end(), side->block.begin(), side->block.end());
      side->block.clear();
    }
    nulls_.clear();
  }

  Timing summary() {
    Timing out;
    out.method = reference_.peer.copies() || candidate_.peer.copies() ? "gated_cpu_copied" : "gated_cpu";
    out.first_call_ms = setup_.first_call_ms;
    const double constant = median(null_blocks_);
    std::vector<double> off;
    for (double n : null_blocks_) off.push_back(std::fabs(n - constant));
    for (Block& b : blocks_) b = {b.reference - constant, b.candidate - constant};
    const auto net_ms = [&](const std::vector<double>& readings) {
      std::vector<double> net;
      for (double r : readings) net.push_back(std::max(r - constant, 0.0) * 1e3);
      return spread(net);
    };
    out.candidate_ms = net_ms(candidate_.kept);
    out.eager_ms = net_ms(reference_.kept);
    // Two children of one module differ, and the constant is only known so well.
    const double floor = std::max({kLeastFloor, 1.5 * median(off), kChildrenDiffer * out.eager_ms.median * 1e-3});
    const SpeedupEstimate estimate = estimate_speedup(blocks_, floor, setup_.delta);
    out.speedup = estimate.speedup;
    out.ci95[0] = estimate.low;
    out.ci95[1] = estimate.high;
    out.resolution_us = floor * 1e6;
    const bool enough = 2 * reference_.kept.size() >= static_cast<size_t>(reference_.calls - 1) &&
                        2 * candidate_.kept.size() >= static_cast<size_t>(candidate_.calls - 1);
    out.decision = enough ? estimate.decision : Decision::kAmbiguous;
    return out;
  }

  double deadline() const { return std::min(setup_.deadline, steady_seconds() + setup_.call_s); }

  Side reference_, candidate_;
  const TimingSetup& setup_;
  Value base_;  // the last input, and which of its tensors may be changed
  std::vector<bool> free_;
  Rng rng_;
  RunQueue own_queue_{0};
  std::vector<double> nulls_, null_blocks_;
  std::vector<Block> blocks_;
  std::vector<std::string> buffers_;  // outputs' raw bytes, touched before they count
  double warm_ = 0;
  uint64_t draws_ = 0;
};

}  // namespace

Step<Timing> time_pair(Peer& reference, Peer& candidate, const TimingSetup& setup) {
  const Undisturbed undisturbed(setup.cpu, {0, reference.pid(), candidate.pid()});
  return Clock(reference, candidate, setup).run();
}

}  // namespace kz::keck
