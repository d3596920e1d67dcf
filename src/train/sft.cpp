#include "train/sft.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/progress.h"

namespace kz::train {

namespace {

// Rows drawn ahead by one thread, so that making them and training on them overlap.
class Ahead {
 public:
  explicit Ahead(const std::function<std::vector<TrainRow>()>& next)
      : thread_([this, &next](const std::stop_token& stop) { run(next, stop); }) {}
  ~Ahead() {
    thread_.request_stop();
    changed_.notify_all();
  }

  // Rows of about `tokens` tokens; fewer at the end.
  std::vector<TrainRow> take(int64_t tokens) {
    std::vector<TrainRow> out;
    while (tokens > 0) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !rows_.empty() || ended_; });
      if (rows_.empty()) {
        if (error_) std::rethrow_exception(error_);
        break;
      }
      out.push_back(std::move(rows_.front()));
      rows_.pop_front();
      lock.unlock();
      changed_.notify_all();
      tokens -= static_cast<int64_t>(out.back().prompt.size() + out.back().answer.size());
    }
    return out;
  }

 private:
  void run(const std::function<std::vector<TrainRow>()>& next, const std::stop_token& stop) {
    constexpr size_t kAhead = 4096;
    while (!stop.stop_requested()) {
      std::vector<TrainRow> rows;
      std::exception_ptr error;
      try {
        rows = next();
      } catch (...) {
        error = std::current_exception();
      }
      std::unique_lock lock(mutex_);
      if (rows.empty()) {
        ended_ = true;
        error_ = error;
        changed_.notify_all();
        return;
      }
      for (TrainRow& r : rows) rows_.push_back(std::move(r));
      changed_.notify_all();
      changed_.wait(lock, [&] { return rows_.size() < kAhead || stop.stop_requested(); });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TrainRow> rows_;
  bool ended_ = false;
  std::exception_ptr error_;
  std::jthread thread_;  // last: it must end before what it uses goes
};

// Decides when the held-out loss has stopped falling.
class Plateau {
 public:
  Plateau(int patience, double min_gain) : patience_(patience), min_gain_(min_gain) {}
  bool reached(double loss) {
    if (loss < best_ * (1 - min_gain_)) {
      best_ = loss;
      since_ = 0;
      return false;
    }
    return ++since_ >= patience_;
  }

 private:
  int patience_;
  double min_gain_, best_ = std::numeric_limits<double>::infinity();
  int since_ = 0;
};

// Gives the trainer its own rate back, however the run ends.
class RestoreRate {
 public:
  explicit RestoreRate(Trainer& trainer) : trainer_(trainer), rate_(trainer.lr_base()) {}
  RestoreRate(const RestoreRate&) = delete;
  ~RestoreRate() { trainer_.set_lr(rate_); }

 private:
  Trainer& trainer_;
  double rate_;
};

}  // namespace

Result<SftReport> run_sft(Trainer& trainer, const std::function<std::vector<TrainRow>()>& next,
                          const std::vector<TrainRow>& held_out, const SftOptions& o,
                          const std::function<bool(const SftPoint&)>& on_point) {
  const Stopwatch watch;
  SftReport report;
  Ahead ahead(next);
  Plateau plateau(o.patience, o.min_gain);
  Progress progress("sft", static_cast<uint64_t>(o.max_rows > 0 ? o.max_rows : o.max_steps), o.quiet);
  const RestoreRate restore(trainer);
  const double base = trainer.lr_base();
  double loss_sum = 0;
  int64_t loss_count = 0;
  int64_t decay_from = -1, decay_steps = 0;  // of the last phase, in which the rate falls
  std::string why;

  // How far the run is on its way to whichever cap comes first, in [0, 1].
  const auto used = [&] {
    double share = 0;
    if (o.max_rows > 0) share = std::max(share, static_cast<double>(report.rows) / static_cast<double>(o.max_rows));
    if (o.max_steps > 0) share = std::max(share, static_cast<double>(report.steps) / static_cast<double>(o.max_steps));
    if (o.max_seconds > 0) share = std::max(share, watch.seconds() / o.max_seconds);
    return share;
  };
  const auto cap = [&] {
    if (o.max_rows > 0 && report.rows >= o.max_rows) return "rows";
    if (o.max_steps > 0 && report.steps >= o.max_steps) return "steps";
    if (o.max_seconds > 0 && watch.seconds() >= o.max_seconds) return "time";
    return "";
  };
  const auto measure = [&]() -> Result<bool> {
    SftPoint p;
    p.step = report.steps;
    p.rows = report.rows;
    p.tokens = report.tokens;
    p.lr = trainer.lr();
    p.loss = loss_count > 0 ? loss_sum / static_cast<double>(loss_count) : std::numeric_limits<double>::quiet_NaN();
    loss_sum = 0;
    loss_count = 0;
    p.held_out = std::numeric_limits<double>::quiet_NaN();
    if (!held_out.empty()) {
      KZ_ASSIGN(p.held_out, trainer.evaluate(held_out));
    }
    p.seconds = watch.seconds();
    report.points.push_back(p);
    report.held_out = p.held_out;
    return !on_point || on_point(p);
  };

  double last_loss = std::numeric_limits<double>::quiet_NaN();
  while (why.empty()) {
    // The rate falls over the last part of the run: to the cap, or from a plateau on.
    double scale = 1;
    if (decay_from >= 0) {
      const double along = static_cast<double>(report.steps - decay_from) / static_cast<double>(decay_steps);
      scale = 1 - (1 - o.min_lr_ratio) * std::min(1.0, along);
    } else if (used() > 1 - o.decay_share && o.decay_share > 0) {
      scale = 1 - (1 - o.min_lr_ratio) * std::min(1.0, (used() - (1 - o.decay_share)) / o.decay_share);
    }
    trainer.set_lr(base * scale);
    const std::vector<TrainRow> rows = ahead.take(o.batch_tokens);
    if (rows.empty()) {
      why = "end of rows";
      break;
    }
    const bool read = report.steps % 10 == 0;  // reading the loss waits for the device
    KZ_ASSIGN(const StepStats stats, trainer.sft_step(rows, read));
    ++report.steps;
    report.rows += stats.sequences;
    report.tokens += stats.tokens;
    if (read) {
      last_loss = stats.loss;
      loss_sum += stats.loss;
      ++loss_count;
    }
    char note[96];
    std::snprintf(note, sizeof note, "loss %.4f  held-out %.4f  %.1fk tok/s", last_loss, report.held_out,
                  static_cast<double>(report.tokens) / watch.seconds() / 1000);
    progress.advance(static_cast<uint64_t>(o.max_rows > 0 ? stats.sequences : 1), note);
    if (o.eval_every > 0 && report.steps % o.eval_every == 0) {
      KZ_ASSIGN(const bool go_on, measure());
      if (!go_on) {
        why = "stopped";
        break;
      }
      if (decay_from < 0 && !held_out.empty() && plateau.reached(report.held_out)) {
        decay_from = report.steps;
        decay_steps =
            std::max<int64_t>(o.eval_every, static_cast<int64_t>(o.decay_share * static_cast<double>(report.steps)));
      }
    }
    if (decay_from >= 0 && report.steps - decay_from >= decay_steps) why = "plateau";
    if (why.empty()) why = cap();
  }
  if (report.points.empty() || report.points.back().step != report.steps) {
    KZ_TRY(measure());
  }
  report.stopped = why;
  report.seconds = watch.seconds();
  report.tokens_per_second = static_cast<double>(report.tokens) / report.seconds;
  progress.finish(why);
  return report;
}

}  // namespace kz::train
