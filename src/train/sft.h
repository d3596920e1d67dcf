// The SFT driver of a cold start: fresh rows from a callback, a held-out loss, a stop at its plateau or at a cap. No
// torch here.
#pragma once

#include <functional>

#include "train/trainer.h"

namespace kz::train {

struct SftOptions {
  int64_t batch_tokens = 8192;  // tokens of one optimiser step, prompts too
  int64_t max_rows = 0;         // rows drawn in all; 0: no cap
  int64_t max_steps = 0;        // 0: no cap
  double max_seconds = 0;       // 0: no cap
  int64_t eval_every = 200;     // steps between held-out losses
  // Plateau: the best held-out loss fell by less than `min_gain` (relative) over `patience` evaluations. The rate then
  // decays linearly to min_lr_ratio over decay_share of the steps made so far (at least eval_every), and training
  // stops.
  int patience = 5;
  double min_gain = 0.01;
  double decay_share = 0.2;
  double min_lr_ratio = 0.05;
  bool quiet = false;  // no progress bar
};

struct SftPoint {
  int64_t step = 0, rows = 0, tokens = 0;
  double seconds = 0, loss = 0, held_out = 0, lr = 0;  // loss: mean over the steps since the point before
};

struct SftReport {
  std::vector<SftPoint> points;
  int64_t steps = 0, rows = 0, tokens = 0;
  double seconds = 0, tokens_per_second = 0, held_out = 0;
  std::string stopped;  // "plateau" | "rows" | "steps" | "time" | "end of rows" | "stopped" (by on_point)
};

// `next` returns fresh rows, a few hundred a call, and none at the end; it is called ahead of need from one other
// thread. `on_point` sees each evaluation; false from it stops (the rate is not decayed).
Result<SftReport> run_sft(Trainer& trainer, const std::function<std::vector<TrainRow>()>& next,
                          const std::vector<TrainRow>& held_out, const SftOptions& options = {},
                          const std::function<bool(const SftPoint&)>& on_point = {});

}  // namespace kz::train
