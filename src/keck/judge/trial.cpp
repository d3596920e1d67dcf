#include "keck/judge/trial.h"

#include <algorithm>

#include "base/clock.h"
#include "keck/judge/tensor.h"

namespace kz::keck {

Result<CallResult> call(Peer& peer, const Value& inputs, const Handover& handover, uint16_t flags, double deadline) {
  KZ_ASSIGN(const Fd memory, handover.open());
  CallResult out;
  const Stopwatch watch;
  KZ_ASSIGN(out.output, peer.ask_value(FrameType::kCall, flags, handover.payload(), memory.get(), deadline));
  out.seconds = watch.seconds();
  out.inputs_after = inputs;
  KZ_ASSIGN(out.inputs_seen, handover.read_back(memory.get(), out.inputs_after));
  return out;
}

int64_t sum_length(const Value& inputs, int64_t largest_parameter) {
  int64_t largest = std::max<int64_t>(largest_parameter, 1);
  for (const Value* v : tensors_of(inputs)) largest = std::max(largest, v->tensor.elements());
  return largest;
}

Comparison compare_call(const Trial& trial, const CallResult& got, const CompareOptions& options) {
  Comparison result =
      compare(trial.expected, trial.oracle ? &*trial.oracle : nullptr, got.output, trial.inputs.items, options);
  if (!result.equal || options.check != Check::kStrict) return result;
  if (got.inputs_seen.out_of_bounds) {
    result.equal = false;
    result.reason = "out_of_bounds_write";
    result.message = "the candidate wrote beyond one of its inputs";
    return result;
  }
  if (!got.inputs_seen.touched && !trial.mutates) return result;
  const Comparison after = compare(trial.inputs_after, nullptr, got.inputs_after, trial.inputs.items, options);
  if (after.equal) return result;
  Comparison wrong = after;
  wrong.reason = "input_mutated";
  wrong.message = trial.mutates ? "the inputs are not left as the reference leaves them: " + after.message
                                : "an input was changed that the reference leaves alone: " + after.message;
  return wrong;
}

bool still_there(const Peer& peer, const Value& output) {
  for (const Value* v : tensors_of(output)) {
    if (!v->bytes || v->bytes->empty()) continue;
    std::string raw(extent_bytes(v->tensor), '\0');
    if (!peer.read(v->tensor.address, raw.data(), raw.size())) return false;
    if (gather(v->tensor, raw) != *v->bytes) return false;
  }
  return true;
}

}  // namespace kz::keck
