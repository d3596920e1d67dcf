#include "app/kernelzero/console.h"

#include <cmath>
#include <cstdio>

#include "app/kernelzero/support.h"
#include "base/progress.h"
#include "evolve/summary.h"

namespace kz::app {
namespace {

double at(const std::map<std::string, double>& numbers, const std::string& name) {
  const auto it = numbers.find(name);
  return it == numbers.end() ? std::nan("") : it->second;
}

// The parts of a step in the order of the work, with words for a person.
constexpr std::pair<const char*, const char*> kParts[] = {
    {"time/propose", "writing modules"},       {"time/gate", "waiting for the gate"},
    {"time/generate", "writing kernels"},      {"time/verdicts", "waiting for verdicts"},
    {"time/timing", "waiting for times"},      {"time/update", "updating weights"},
    {"time/checkpoint", "saving checkpoints"},
};

}  // namespace

std::string disk_text(const fs::path& folder) {
  uintmax_t bytes = 0;
  std::error_code ec;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ec)) {
    std::error_code gone;
    if (entry.is_regular_file(gone)) bytes += entry.file_size(gone);
  }
  return std::to_string(bytes / 1000000) + " MB";
}

Console::Console(const evolve::EvolveOptions& options, bool quiet) : options_(options), quiet_(quiet) {}

evolve::Reporter Console::reporter() {
  if (quiet_) return {};
  evolve::Reporter r;
  r.evaluation = [this](const std::string& name, const evolve::EvaluationRecord* done) { on_evaluation(name, done); };
  r.step = [this](const evolve::Place& p, const evolve::StepRecord& s, double left) { on_step(p, s, left); };
  r.round = [this](int round, const std::map<std::string, double>& numbers) { on_round(round, numbers); };
  r.progress = [this](const std::string& what, size_t done, size_t total) { on_progress(what, done, total); };
  return r;
}

void Console::on_evaluation(const std::string& name, const evolve::EvaluationRecord* done) {
  bar_.reset();
  evaluating_ = done == nullptr;
  told_ = 0;
  inner_.clear();
  if (!done) {
    std::printf("Evaluation %s the loop: held-out modules, %d samples each and one greedy answer.\n", name.c_str(),
                options_.evaluation.samples);
    std::fflush(stdout);
    return;
  }
  std::printf("  %s: %zu modules, right at temperature 1 %s, greedy %s, pass@8 %s (%s)\n", name.c_str(),
              done->tasks.size(), percent(at(done->numbers, "accuracy")).c_str(),
              percent(at(done->numbers, "greedy")).c_str(), percent(at(done->numbers, "pass8")).c_str(),
              clock_text(done->seconds).c_str());
  std::fflush(stdout);
}

void Console::on_step(const evolve::Place& place, const evolve::StepRecord& record, double left) {
  const auto total = static_cast<uint64_t>(options_.steps());
  if (!bar_) {
    bar_ = std::make_unique<Progress>("loop", total);
    if (record.step > 0) bar_->advance(static_cast<uint64_t>(record.step));
  }
  const auto& m = record.metrics;
  char note[200];
  if (place.role == evolve::Role::kProposer) {
    std::snprintf(note, sizeof note, "round %d Proposer %d/%d: valid %s, frontier reward %.2f; about %s left",
                  place.round + 1, place.index + 1, options_.proposer_steps, percent(at(m, "proposer/valid")).c_str(),
                  at(m, "proposer/frontier_reward"), clock_text(left).c_str());
  } else {
    std::snprintf(note, sizeof note, "round %d Coder %d/%d: right %s, %d mixed groups; about %s left", place.round + 1,
                  place.index + 1, options_.coder_steps, percent(at(m, "coder/accuracy")).c_str(),
                  static_cast<int>(at(m, "coder/mixed")), clock_text(left).c_str());
  }
  bar_->advance(1, note);
}

void Console::on_round(int round, const std::map<std::string, double>& n) {
  bar_.reset();
  std::printf(
      "Round %d of %d in %s. The Proposer wrote %.0f modules, %s valid, %.0f new to the archive; on these the Coder "
      "was "
      "at the frontier by %.2f. The Coder's kernels were right %s of the time (%s on modules it had never seen), "
      "%.0f verdicts of which %.0f from the cache.\n",
      round + 1, options_.rounds, clock_text(at(n, "seconds")).c_str(), at(n, "proposer_samples"),
      percent(at(n, "proposer_valid")).c_str(), at(n, "modules"), at(n, "frontier_reward"),
      percent(at(n, "coder_accuracy")).c_str(), percent(at(n, "coder_accuracy_fresh")).c_str(), at(n, "verdicts"),
      at(n, "cache_hits"));
  std::fflush(stdout);
}

void Console::on_progress(const std::string& what, size_t done, size_t total) {
  if (!evaluating_) return;
  if (what != inner_) {
    bar_ = std::make_unique<Progress>("  " + what, total);
    inner_ = what;
    told_ = 0;
  }
  if (done < told_) told_ = 0;
  bar_->advance(done - told_);
  told_ = done;
}

void Console::finish(const evolve::Store& store, const Json& s, const fs::path& folder) const {
  if (quiet_) return;
  const auto number = [&](const char* name) { return number_from_json(s.value(name, Json())); };
  const auto metrics = store.metrics();
  std::map<std::string, double> sums;
  if (metrics) {
    for (const auto& row : *metrics) sums[row.name] += row.value;
  }
  std::printf("\nWhere the time went (seconds)\n");
  for (const char* name : {"before", "after"}) {
    const auto e = store.evaluation(name);
    if (e && *e) std::printf("  %8.1f  evaluation %s\n", (*e)->seconds, name);
  }
  for (const auto& [name, words] : kParts) std::printf("  %8.1f  %s\n", sums[name], words);
  std::printf("  %8.1f  loop in all; %.0f tokens of kernels and %.0f of modules written\n", sums["time/step"],
              sums["tokens/generated"], sums["tokens/proposed"]);
  std::printf("Verdicts %.0f, of which %.0f were known, %.0f unscored, %.0f ambiguous in time.\n", number("verdicts"),
              number("cache_hits"), number("verdicts_unscored"), number("verdicts_ambiguous"));
  std::printf(
      "Groups where speed counted %.0f, with a bonus %.0f. Distinct modules by the Proposer %.0f, valid %s of its "
      "samples.\n",
      number("groups_gated_on"), number("groups_with_bonus"), number("proposer_modules"),
      percent(number("proposer_valid")).c_str());
  if (!s["gain_ci95"].is_null()) {
    const double gain = number("coder_accuracy_after") - number("coder_accuracy_before");
    std::printf("\nCoder on %.0f held-out modules     before    after\n", number("heldout_tasks"));
    std::printf("  right at temperature 1        %8s %8s   %+.1f points, 95%% interval %+.1f to %+.1f\n",
                percent(number("coder_accuracy_before")).c_str(), percent(number("coder_accuracy_after")).c_str(),
                100 * gain, 100 * number_from_json(s["gain_ci95"][0]), 100 * number_from_json(s["gain_ci95"][1]));
    std::printf("  greedy                        %8s %8s\n", percent(number("greedy_before")).c_str(),
                percent(number("greedy_after")).c_str());
    std::printf("  pass@8                        %8s %8s\n", percent(number("pass8_before")).c_str(),
                percent(number("pass8_after")).c_str());
  }
  std::printf("\n%s in all, peak memory %.0f MB, run folder %s (%s). Read it: kernelzero report %s\n",
              clock_text(number("wall_s")).c_str(), number("peak_rss_mb"), folder.c_str(), disk_text(folder).c_str(),
              folder.c_str());
}

}  // namespace kz::app
