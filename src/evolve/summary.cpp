#include "evolve/summary.h"

#include <set>

#include "evolve/evaluation.h"
#include "evolve/run.h"

namespace kz::evolve {
namespace {

struct Sums {
  std::map<std::string, double> sum;
  std::map<std::string, int> n;
  void add(const std::string& name, double value) { sum[name] += value, ++n[name]; }
  double total(const std::string& name) const { return sum.count(name) ? sum.at(name) : 0; }
  double mean(const std::string& name) const { return n.count(name) ? sum.at(name) / n.at(name) : std::nan(""); }
};

double number(const std::optional<EvaluationRecord>& e, const std::string& name) {
  return e && e->numbers.count(name) ? e->numbers.at(name) : std::nan("");
}

}  // namespace

Result<std::map<std::string, double>> round_numbers(const Store& store, const EvolveOptions& options, int round) {
  KZ_ASSIGN(const auto rows, store.metrics());
  Sums sums;
  std::set<int64_t> steps;
  for (const auto& row : rows) {
    if (place_of(row.step, options).round != round) continue;
    sums.add(row.name, row.value);
    steps.insert(row.step);
  }
  std::map<std::string, double> out;
  out["steps"] = static_cast<double>(steps.size());
  out["seconds"] = sums.total("time/step");
  out["modules"] = sums.total("proposer/admitted");
  out["proposer_samples"] = sums.total("proposer/samples");
  if (sums.total("proposer/samples") > 0) {
    out["proposer_valid"] = sums.total("proposer/valid_samples") / sums.total("proposer/samples");
  }
  out["frontier_reward"] = sums.mean("proposer/frontier_reward");
  out["coder_accuracy"] = sums.mean("coder/accuracy");
  out["coder_accuracy_fresh"] = sums.mean("coder/accuracy_fresh");
  out["coder_entropy"] = sums.mean("coder/entropy");
  out["verdicts"] = sums.total("verdicts/asked");
  out["cache_hits"] = sums.total("verdicts/hits");
  return out;
}

Result<Json> summary_json(const Store& store, double wall_s, double peak_rss_mb) {
  KZ_ASSIGN(const auto rows, store.metrics());
  KZ_ASSIGN(const auto modules, store.modules());
  KZ_ASSIGN(const int64_t rounds, store.rounds_done());
  KZ_ASSIGN(const auto before, store.evaluation("before"));
  KZ_ASSIGN(const auto after, store.evaluation("after"));
  Sums sums;
  for (const auto& row : rows) sums.add(row.name, row.value);
  const auto with_evaluations = [&](const char* metric, const char* name) {
    double n = sums.total(metric);
    for (const auto* e : {&before, &after}) {
      if (*e) n += (*e)->numbers.count(name) ? (*e)->numbers.at(name) : 0;
    }
    return static_cast<int64_t>(n);
  };
  Json gain_ci = nullptr;
  if (before && after) {
    const auto g = gain(task_accuracy(*before, "sample"), task_accuracy(*after, "sample"));
    gain_ci = Json::array({json_number(g.low), json_number(g.high)});
  }
  const double samples = sums.total("proposer/samples");
  return Json{
      {"rounds", rounds},
      {"verdicts", with_evaluations("verdicts/asked", "verdicts")},
      {"cache_hits", with_evaluations("verdicts/hits", "hits")},
      {"verdicts_unscored", with_evaluations("verdicts/unscored", "unscored")},
      {"verdicts_ambiguous", static_cast<int64_t>(sums.total("verdicts/ambiguous"))},
      {"groups_gated_on", static_cast<int64_t>(sums.total("coder/gated_on"))},
      {"groups_with_bonus", static_cast<int64_t>(sums.total("coder/with_bonus"))},
      {"proposer_modules", static_cast<int64_t>(modules.size())},
      {"proposer_valid", json_number(samples > 0 ? sums.total("proposer/valid_samples") / samples : std::nan(""))},
      {"coder_accuracy_before", json_number(number(before, "accuracy"))},
      {"coder_accuracy_after", json_number(number(after, "accuracy"))},
      {"gain_ci95", gain_ci},
      {"greedy_before", json_number(number(before, "greedy"))},
      {"greedy_after", json_number(number(after, "greedy"))},
      {"pass8_before", json_number(number(before, "pass8"))},
      {"pass8_after", json_number(number(after, "pass8"))},
      {"heldout_tasks", static_cast<int64_t>(after    ? after->tasks.size()
                                             : before ? before->tasks.size()
                                                      : 0)},
      {"wall_s", json_number(wall_s)},
      {"peak_rss_mb", json_number(peak_rss_mb)}};
}

}  // namespace kz::evolve
