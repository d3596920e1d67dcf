// From logits to a token: temperature, top-k, top-p, and the log-probability that the trainer would give the token.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "lm/generator.h"

namespace kz::lm {

struct Sampled {
  int32_t token = 0;
  // Natural log of softmax(logits / temperature)[token] over the whole vocabulary, before top-k and top-p; at
  // temperature 0 of softmax(logits).
  float logprob = 0;
};

class Sampler {
 public:
  explicit Sampler(const Sampling& sampling) : sampling_(sampling) {}
  // Draws one number from `rng` unless greedy. The first of equal logits wins when greedy.
  Sampled sample(const float* logits, int64_t n, Rng& rng);

 private:
  Sampling sampling_;
  std::vector<float> weights_;
  std::vector<int32_t> order_;
};

}  // namespace kz::lm
