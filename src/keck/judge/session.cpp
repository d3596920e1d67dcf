#include "keck/judge/session.h"

#include <cstring>
#include <map>

#include "base/clock.h"
#include "base/random.h"
#include "keck/judge/error_model.h"
#include "keck/judge/null_candidates.h"
#include "keck/judge/tensor.h"
#include "keck/judge/timing.h"
#include "keck/judge/transform.h"

namespace kz::keck {
namespace {

// Audited calls beyond two, while they are cheap; how many a candidate can't foresee.
constexpr uint64_t kAuditCalls = 8;
constexpr double kAuditSeconds = 0.25;

int plain_trials(const JudgeJob& job, Check check) {
  if (job.trials > 0) return std::min(job.trials, 64);
  switch (check) {
    case Check::kStrict:
      return 3;
    case Check::kKernelBench:
      return 5;
    case Check::kKeckV0:
      return 1;
  }
  return 3;
}

std::string packed_seed(uint64_t seed) { return {reinterpret_cast<const char*>(&seed), sizeof seed}; }

bool same_bytes(const Value& a, const Value& b) {
  const auto x = tensors_of(a), y = tensors_of(b);
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    if (*x[i]->bytes != *y[i]->bytes) return false;
  }
  return true;
}

}  // namespace

Session::Session(const JudgeJob& job, Peer reference, Peer candidate, SessionHooks hooks,
                 std::optional<TaskAudit> known)
    : job_(job),
      reference_(std::move(reference)),
      candidate_(std::move(candidate)),
      hooks_(std::move(hooks)),
      known_(std::move(known)) {}

SessionResult Session::run() {
  JudgeReport& report = result_.report;
  report.seed = job_.seed.value_or(secret_seed());
  check_ = parse_check(job_.check).value_or(Check::kStrict);
  deadline_ = steady_seconds() + job_.deadline_s;
  const Stopwatch watch;
  const double before = reference_.cpu_seconds() + candidate_.cpu_seconds();
  const auto ended = flow();
  report.check_ms = watch.seconds() * 1e3 - report.time_ms;
  if (ended) {
    report.outcome = Outcome::kPass;
    report.stage = Stage::kNone;
  } else {
    report.outcome = ended.error().outcome;
    report.stage = ended.error().stage;
    report.reason = ended.error().reason;
    report.message = ended.error().message;
    if (report.outcome != Outcome::kPass) report.timing.reset();
  }
  const double after = reference_.cpu_seconds() + candidate_.cpu_seconds() + (audit_ ? audit_->cpu_seconds() : 0);
  report.children_cpu_s = std::max(after - before, 0.0);  // 0 when one is gone already
  report.reference_clean = reference_.clean() && reference_.quiet();
  return std::move(result_);
}

double Session::call_deadline() const { return std::min(deadline_, steady_seconds() + job_.call_s); }

CompareOptions Session::compare_options(const Value& inputs) const {
  CompareOptions options;
  options.check = check_;
  options.sum_length = sum_length(inputs, largest_parameter_);
  options.coarsest = coarsest_parameter_;
  for (const Value* v : tensors_of(inputs)) {
    if (is_floating(v->tensor.dtype) && unit_of(v->tensor.dtype) > unit_of(options.coarsest))
      options.coarsest = v->tensor.dtype;
  }
  return options;
}

Step<void> Session::flow() {
  if (known_ && !known_->sound) return end(Outcome::kUnscored, Stage::kTask, "task_degenerate", known_->message);
  if (auto hello = reference_.hello(call_deadline()); !hello)
    return blame_reference(reference_, hello.error(), "starting");
  if (auto hello = candidate_.hello(call_deadline()); !hello) {
    return blame_candidate(candidate_, hello.error(), Stage::kLoad, "starting");
  }
  KZ_TRY(construct());
  KZ_TRY(run_trials());
  KZ_TRY(audit_operators());
  if (result_.report.audit.state == AuditReport::State::kTorchCompute)
    return {};  // not accepted: its speed counts nowhere
  return time();
}

Step<void> Session::construct() {
  const double deadline = std::min(deadline_, steady_seconds() + job_.construct_s);
  const uint64_t seed = derive_seed(result_.report.seed, "construct");
  KZ_BLAME(init_inputs_, reference_.ask_value(FrameType::kInitInputs, 0, packed_seed(seed), -1, deadline),
           blame_reference(reference_, kz_error, "making init inputs"));
  init_handover_.emplace(init_inputs_);
  construct_payload_ = packed_seed(seed) + init_handover_->payload();
  KZ_BLAME(const Fd memory, init_handover_->open(), blame_reference(reference_, kz_error, "starting"));
  KZ_BLAME(const std::vector<NamedTensor> state, reference_.ask_state(construct_payload_, memory.get(), true, deadline),
           blame_reference(reference_, kz_error, "constructing Model"));
  for (const NamedTensor& entry : state) {
    const Dtype dtype = entry.tensor.dtype;
    largest_parameter_ = std::max(largest_parameter_, entry.tensor.elements());
    if (is_floating(dtype) && unit_of(dtype) > unit_of(coarsest_parameter_)) coarsest_parameter_ = dtype;
  }

  KZ_BLAME(const Fd again, init_handover_->open(), blame_reference(reference_, kz_error, "starting"));
  const Stopwatch watch;
  KZ_BLAME(const std::vector<NamedTensor> have, candidate_.ask_state(construct_payload_, again.get(), false, deadline),
           blame_candidate(candidate_, kz_error, Stage::kLoad, "constructing ModelNew"));
  result_.report.first_call_ms = watch.seconds() * 1e3;
  std::map<std::string, const NamedTensor*> wanted;
  for (const NamedTensor& entry : have) wanted[entry.name] = &entry;
  std::vector<NamedTensor> common;
  for (const NamedTensor& entry : state) {
    const auto it = wanted.find(entry.name);
    const bool fits = it != wanted.end() && it->second->tensor.shape == entry.tensor.shape &&
                      it->second->tensor.dtype == entry.tensor.dtype;
    if (fits) common.push_back(entry);
    if (!fits && !entry.is_buffer) parameters_differ_ = true;
  }
  return load_parameters(common);
}

Step<void> Session::load_parameters(const std::vector<NamedTensor>& common) {
  if (common.empty()) return {};
  state_handover_.emplace(common);
  KZ_BLAME(const Fd memory, state_handover_->open(), blame_reference(reference_, kz_error, "starting"));
  KZ_BLAME(const Frame done,
           candidate_.ask(FrameType::kLoad, 0, state_handover_->payload(), memory.get(), FrameType::kDone,
                          std::min(deadline_, steady_seconds() + job_.construct_s)),
           blame_candidate(candidate_, kz_error, Stage::kLoad, "taking the reference's parameters"));
  return {};
}

Step<Value> Session::draw_inputs(uint64_t seed) {
  const Stopwatch watch;
  KZ_BLAME(Value inputs, reference_.ask_value(FrameType::kInputs, 0, packed_seed(seed), -1, call_deadline()),
           blame_reference(reference_, kz_error, "making inputs"));
  draw_seconds_ = watch.seconds();
  for (const Value* v : tensors_of(inputs)) {
    if (!v->bytes)
      return end(Outcome::kUnscored, Stage::kTask, "unsupported_input", "an input on another device than the CPU");
  }
  return inputs;
}

Step<Trial> Session::make_trial(std::string label, Value inputs) {
  Trial trial(std::move(label), std::move(inputs));
  KZ_BLAME(CallResult made, call(reference_, trial.inputs, trial.handover, 0, call_deadline()),
           blame_reference(reference_, kz_error, "running"));
  if (last_expected_ && !reference_.copies() && !still_there(reference_, *last_expected_)) overwrites_ = true;
  last_expected_ = made.output;
  trial.expected = std::move(made.output);
  trial.mutates = made.inputs_seen.touched;
  trial.inputs_after = std::move(made.inputs_after);
  if (check_ != Check::kStrict) return trial;
  auto wide = call(reference_, trial.inputs, trial.handover, kCallDouble, call_deadline());
  if (wide) {
    trial.oracle = std::move(wide->output);
  } else if (wide.error().code != "raised") {
    return blame_reference(reference_, wide.error(), "running in fp64");
  }
  return trial;
}

Step<void> Session::run_trials() {
  Correctness& seen = result_.report.correctness.emplace();
  const int plain = plain_trials(job_, check_);
  seen.check = job_.check;
  seen.trials = plain + (check_ == Check::kStrict ? 2 : 0);
  for (int i = 0; i < plain; ++i) {
    KZ_ASSIGN(Value inputs, draw_inputs(derive_seed(result_.report.seed, "trial", static_cast<uint64_t>(i))));
    KZ_ASSIGN(Trial trial, make_trial("seed " + std::to_string(i), std::move(inputs)));
    if (i > 0) {
      KZ_TRY(run_trial(trial, candidate_));
      continue;
    }
    first_.emplace(std::move(trial));
    KZ_TRY(audit_task());
    KZ_TRY(run_trial(*first_, candidate_));
  }
  if (check_ != Check::kStrict) return {};
  other_values_ = Rng(derive_seed(result_.report.seed, "other values"));
  KZ_TRY(run_other_values(OtherValues::kShuffled, "shuffled"));
  return run_other_values(OtherValues::kOutliers, "outliers");
}

// Only where the reference stays finite in its own precision and in fp64, and does not raise; else skipped, and said.
Step<void> Session::run_other_values(OtherValues how, const char* label) {
  const auto skip = [&](const char* why) -> Step<void> {
    result_.report.notes.push_back(std::string("trial ") + label + " skipped: " + why);
    --result_.report.correctness->trials;
    return {};
  };
  std::optional<Value> inputs = with_other_values(first_->inputs, how, other_values_);
  if (!inputs) return skip("no input is free to change");
  const auto trial = make_trial(label, std::move(*inputs));
  if (!trial) {
    return trial.error().reason == "reference_raised" ? skip("the reference raises") : tl::unexpected(trial.error());
  }
  if (!all_finite(trial->expected)) return skip("the reference is not finite");
  if (!trial->oracle || !all_finite(*trial->oracle)) return skip("no finite fp64 run");
  return run_trial(*trial, candidate_);
}

// A task is judged once; a candidate's own trials serve as its material.
Step<void> Session::audit_task() {
  const auto degenerate = [&](std::string why) -> Step<void> {
    result_.task_audit = TaskAudit{false, why};
    return end(Outcome::kUnscored, Stage::kTask, "task_degenerate", std::move(why));
  };
  if (known_) return {};
  const Trial& first = *first_;
  const CompareOptions options = compare_options(first.inputs);
  const Value* oracle = first.oracle ? &*first.oracle : nullptr;
  if (tensors_of(first.inputs).empty()) return degenerate("get_inputs gives no tensor");

  KZ_ASSIGN(Value other_inputs, draw_inputs(derive_seed(result_.report.seed, "audit")));
  if (same_bytes(first.inputs, other_inputs)) return degenerate("get_inputs gives the same values for another seed");
  KZ_ASSIGN(const Trial other, make_trial("audit", std::move(other_inputs)));
  if (compare(first.expected, oracle, other.expected, first.inputs.items, options).equal) {
    return degenerate("the output does not depend on the inputs");
  }
  KZ_BLAME(const CallResult again, call(reference_, first.inputs, first.handover, 0, call_deadline()),
           blame_reference(reference_, kz_error, "running again"));
  if (!compare(first.expected, oracle, again.output, first.inputs.items, options).equal) {
    return degenerate("two runs of the reference on one input differ");
  }
  for (const NullCandidate& null : null_candidates(first.expected, first.inputs)) {
    if (compare(first.expected, oracle, null.value, {}, options).equal)
      return degenerate(null.name + " would pass for the output");
  }
  if (check_ == Check::kStrict) {
    Rng rng(derive_seed(result_.report.seed, "ulp"));
    if (auto moved = with_other_values(first.inputs, OtherValues::kUlp, rng)) {
      const Handover handover(*moved);
      KZ_BLAME(const CallResult near, call(reference_, *moved, handover, 0, call_deadline()),
               blame_reference(reference_, kz_error, "running on perturbed inputs"));
      CompareOptions quarter = options;
      // A unit of a half is as large as what a right kernel may be off by; only what multiplies it is ill-conditioned.
      quarter.factor = unit_of(options.coarsest) > 1e-4 ? 1 : 0.25;
      const Comparison close = compare(first.expected, oracle, near.output, first.inputs.items, quarter);
      // A step in the function may be crossed by a few elements of many.
      if (!close.equal && (close.reason != "wrong_values" || close.wrong_share > 1e-3)) {
        return degenerate("ill-conditioned: inputs moved by one ulp change the output, " + close.message);
      }
    }
  }
  result_.task_audit = TaskAudit{true, ""};
  last_expected_.reset();  // the calls above have driven it out of the child's memory
  return {};
}

tl::unexpected<Ending> Session::wrong(const Comparison& comparison, const Trial& trial) const {
  if (parameters_differ_ && comparison.reason == "wrong_values") {
    return end(
        Outcome::kFail, Stage::kCompare, "parameter_mismatch",
        "the candidate's parameters do not map to the reference's by name and shape, and its values are wrong: " +
            comparison.message);
  }
  return end(Outcome::kFail, Stage::kCompare, comparison.reason, comparison.message + " (" + trial.label + ")");
}

Step<void> Session::run_trial(const Trial& trial, Peer& peer) {
  KZ_BLAME(CallResult got,
           call(peer, trial.inputs, trial.handover, &peer == &candidate_ ? 0 : kCallBan, call_deadline()),
           blame_candidate(peer, kz_error, Stage::kRun, "running forward (" + trial.label + ")"));
  const Comparison comparison = compare_call(trial, got, compare_options(trial.inputs));
  Correctness& seen = *result_.report.correctness;
  if (seen.passed == 0) result_.report.first_call_ms = got.seconds * 1e3;
  seen.max_abs_error = std::max(seen.max_abs_error, comparison.max_abs_error);
  seen.max_rel_error = std::max(seen.max_rel_error, comparison.scaled);
  seen.tolerance = std::max(seen.tolerance, comparison.tolerance);
  widening_ = std::max(widening_, comparison.widening);
  if (!comparison.equal) {
    seen.wrong_share = comparison.wrong_share;
    seen.first_mismatch = comparison.first_mismatch;
    return wrong(comparison, trial);
  }
  if (&peer != &candidate_) return {};
  ++seen.passed;
  if (check_ != Check::kStrict || peer.copies()) return {};
  // The child keeps its last two results: one buffer for all answers shows here.
  if (last_output_ && !overwrites_ && !still_there(peer, *last_output_)) {
    return end(Outcome::kFail, Stage::kCompare, "output_overwritten",
               "a later call changed the output of an earlier one");
  }
  last_output_ = std::move(got.output);
  return {};
}

Step<void> Session::audit_operators() {
  if (!hooks_.audit_child) return {};
  const std::optional<JudgeChild> child = hooks_.audit_child();
  if (!child || !child->present())
    return end(Outcome::kUnscored, Stage::kHost, "no_audit_child", "no audit child could be started");
  AuditReport& audit = result_.report.audit;
  audit_.emplace(Fd(child->fd), child->pid, job_.max_bytes);
  Peer& peer = *audit_;
  const auto flow = [&]() -> Step<void> {
    const double deadline = std::min(deadline_, steady_seconds() + job_.construct_s);
    KZ_BLAME(const Fd memory, init_handover_->open(), blame_reference(reference_, kz_error, "starting"));
    if (auto hello = peer.hello(deadline); !hello)
      return blame_candidate(peer, hello.error(), Stage::kPolicy, "starting its audit");
    KZ_BLAME(const auto have, peer.ask_state(construct_payload_, memory.get(), false, deadline),
             blame_candidate(peer, kz_error, Stage::kPolicy, "constructing ModelNew for its audit"));
    if (state_handover_) {
      KZ_BLAME(const Fd state, state_handover_->open(), blame_reference(reference_, kz_error, "starting"));
      KZ_BLAME(const Frame done,
               peer.ask(FrameType::kLoad, 0, state_handover_->payload(), state.get(), FrameType::kDone, deadline),
               blame_candidate(peer, kz_error, Stage::kPolicy, "taking parameters for its audit"));
    }
    // One call would let through who uses a kernel of its own once, and torch ever after.
    const uint64_t calls = 2 + derive_seed(result_.report.seed, "audit calls") % kAuditCalls;
    const Stopwatch watch;
    for (uint64_t i = 0; i < calls && (i < 2 || watch.seconds() < kAuditSeconds); ++i) KZ_TRY(run_trial(*first_, peer));
    return {};
  }();
  if (flow) {
    audit.state = AuditReport::State::kOk;
    return {};
  }
  if (peer.raised().kind == RaisedKind::kBanned) {
    audit.state = AuditReport::State::kTorchCompute;
    audit.message = peer.raised().message.substr(0, 200);
    return {};
  }
  audit.state = AuditReport::State::kFailed;
  audit.message = flow.error().message;
  Ending ending = flow.error();
  if (ending.outcome == Outcome::kFail) ending.stage = Stage::kPolicy, ending.reason = "audit_failed";
  return tl::unexpected(std::move(ending));
}

Step<void> Session::time() {
  if (!job_.timing || job_.interpreted) return {};
  const double asked = steady_seconds();
  if (hooks_.timing_lease && !hooks_.timing_lease()) return {};
  deadline_ += steady_seconds() - asked;  // waiting for the lease is nobody's fault
  const Stopwatch watch;
  TimingSetup setup;
  setup.seed = result_.report.seed;
  setup.budget_s = job_.timing_budget_s;
  setup.draw_seconds = draw_seconds_;
  setup.deadline = deadline_;
  setup.call_s = job_.call_s;
  setup.delta = job_.delta;
  setup.cpu = hooks_.cpu;
  setup.compare = compare_options(first_->inputs);
  setup.compare.factor = widening_;
  setup.mutates = first_->mutates && check_ == Check::kStrict;
  setup.first_call_ms = result_.report.first_call_ms;
  last_output_.reset();
  last_expected_.reset();
  auto timing = time_pair(reference_, candidate_, setup);
  result_.report.time_ms = watch.seconds() * 1e3;
  if (!timing) return tl::unexpected(timing.error());
  result_.report.timing = std::move(*timing);
  return {};
}

}  // namespace kz::keck
