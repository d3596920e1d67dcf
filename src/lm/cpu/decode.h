// Continuous batching on the CPU: threads that each decode their own sequences, with nothing shared but the weights.
#pragma once

#include <functional>
#include <vector>

#include "lm/cpu/weights.h"
#include "lm/generator.h"

namespace kz::lm::cpu {

// One prompt and the completions wanted of it; its keys and values are computed once a thread.
struct Request {
  std::vector<int32_t> prompt;  // at least 1 token, fewer than the model has positions
  std::vector<uint64_t> seeds;  // one a completion
  std::vector<size_t> ids;      // the caller's name for each
};

struct Finished {
  size_t id = 0;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  bool stopped = false;  // by an end token or a stop string; else the length ran out
};

struct DecodeOptions {
  Sampling sampling;
  int threads = 1;
  int slots = 64;  // sequences decoded together by one thread
  // Whether the text of these tokens ends the completion (stop strings); may be empty. Called from the threads.
  std::function<bool(const std::vector<int32_t>&)> stops;
};

struct DecodeCounts {
  uint64_t prefilled = 0, sampled = 0;
};

// Calls `done` from the calling thread, in order of completion, while others still decode; false from it cancels the
// rest. Throws what a thread threw (out of memory).
DecodeCounts decode(const PackedModel& model, std::vector<Request> requests, const DecodeOptions& options,
                    const std::function<bool(Finished)>& done);

}  // namespace kz::lm::cpu
