#include "lm/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lm/cpu/kernels.h"

namespace kz::lm {

Sampled Sampler::sample(const float* logits, int64_t n, Rng& rng) {
  const cpu::Kernels& k = cpu::kernels();
  const bool greedy = sampling_.temperature <= 0;
  const float scale = greedy ? 1.0f : static_cast<float>(1.0 / sampling_.temperature);
  weights_.resize(static_cast<size_t>(n));
  float max = 0;
  const float total = k.exp_sum(logits, n, scale, weights_.data(), &max);
  int64_t pick = n - 1;
  if (greedy) {
    pick = std::max_element(logits, logits + n) - logits;
  } else if ((sampling_.top_k <= 0 || sampling_.top_k >= n) && sampling_.top_p >= 1.0) {
    const double target = rng.uniform() * static_cast<double>(total);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += static_cast<double>(weights_[static_cast<size_t>(i)]);
      if (sum > target) {
        pick = i;
        break;
      }
    }
    while (pick > 0 && weights_[static_cast<size_t>(pick)] == 0)
      --pick;  // rounding may run past the last that has weight
  } else {
    // The heaviest first, ties by token; then as few as top-k and top-p leave.
    order_.resize(static_cast<size_t>(n));
    std::iota(order_.begin(), order_.end(), 0);
    const auto heavier = [&](int32_t a, int32_t b) {
      const float x = weights_[static_cast<size_t>(a)], y = weights_[static_cast<size_t>(b)];
      return x != y ? x > y : a < b;
    };
    const int64_t keep = sampling_.top_k > 0 ? std::min<int64_t>(sampling_.top_k, n) : n;
    std::partial_sort(order_.begin(), order_.begin() + keep, order_.end(), heavier);
    double mass = 0;
    for (int64_t i = 0; i < keep; ++i)
      mass += static_cast<double>(weights_[static_cast<size_t>(order_[static_cast<size_t>(i)])]);
    double kept = 0;
    int64_t used = 0;
    while (used < keep && (used == 0 || kept < sampling_.top_p * mass))
      kept += static_cast<double>(weights_[static_cast<size_t>(order_[static_cast<size_t>(used++)])]);
    std::sort(order_.begin(), order_.begin() + used);  // drawn in order of the token, as on a device
    const double target = rng.uniform() * kept;
    double sum = 0;
    pick = order_[static_cast<size_t>(used - 1)];
    for (int64_t i = 0; i < used; ++i) {
      sum += static_cast<double>(weights_[static_cast<size_t>(order_[static_cast<size_t>(i)])]);
      if (sum > target) {
        pick = order_[static_cast<size_t>(i)];
        break;
      }
    }
  }
  return {static_cast<int32_t>(pick), logits[pick] * scale - max - std::log(total)};
}

}  // namespace kz::lm
