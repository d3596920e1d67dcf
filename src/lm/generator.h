// Whatever writes text: the engine of this folder, or an OpenAI-compatible server. No torch in this header.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace kz::lm {

struct Sampling {
  double temperature = 1.0;  // 0: greedy
  double top_p = 1.0;
  int top_k = 0;  // 0: all
  int max_new_tokens = 512;
  std::vector<std::string> stop;
};

// A prompt is text already in the model's chat form (see evolve/prompt.h). Sequence s of a batch is sampled from
// derive_seed(seed, "sample", s) alone, so batch composition does not change it.
struct Prompt {
  std::string text;
  uint64_t seed = 0;         // of this one completion
  std::string system, user;  // the same as chat messages, for servers that apply their own template
};

struct Completion {
  std::string text;  // without the end token
  std::vector<int32_t> prompt_tokens,
      tokens;  // tokens include the end token when finish is "stop"; empty from a server
  std::vector<float>
      logprobs;        // natural log of the sampled token's probability at the sampling temperature, one a token
  std::string finish;  // "stop" | "length" | "error"
  std::string error;   // for "error": one line
};

class Generator {
 public:
  virtual ~Generator() = default;
  // One completion a prompt, in order. `done(i)` is called as completion i is finished, from the calling thread.
  virtual Result<std::vector<Completion>> generate(const std::vector<Prompt>& prompts, const Sampling& sampling,
                                                   const std::function<void(size_t, const Completion&)>& done = {}) = 0;
};

}  // namespace kz::lm
