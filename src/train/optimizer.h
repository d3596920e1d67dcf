// AdamW with warm-up, a schedule and a global norm clip, all on the device: no step waits for it. Torch is visible
// here.
#pragma once

#include <vector>

#include "lm/model.h"
#include "train/trainer.h"

namespace kz::train {

double learning_rate(const OptimizerOptions& options, int64_t step);  // of optimiser step `step`, from 0

class AdamW {
 public:
  AdamW(std::vector<lm::NamedTensor> parameters, const OptimizerOptions& options);

  // Uses and clears the gradients. Where the norm is not finite nothing changes. Returns the norm before clipping (a
  // scalar on the device).
  at::Tensor step(double lr);
  void clear_gradients();

  // Moments by parameter name and the number of steps made, for checkpoints: "m.NAME", "v.NAME", "t".
  std::vector<lm::NamedTensor> state() const;

 private:
  struct Group {
    std::vector<at::Tensor> parameters, m, v, steps;
  };
  std::vector<lm::NamedTensor> parameters_;
  OptimizerOptions options_;
  std::vector<at::Tensor> m_, v_;
  at::Tensor steps_;  // [1] fp32
  Group groups_[2];   // matrices, which decay, and vectors, which do not
};

}  // namespace kz::train
