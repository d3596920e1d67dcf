#include <algorithm>
#include <cmath>
#include <limits>

#include "base/process.h"
#include "bench/report.h"

namespace kz::bench {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double metric(const Json& step, const char* name) {
  const Json metrics = step.value("metrics", Json::object());
  return metrics.contains(name) ? number_from_json(metrics[name]) : kNone;
}

// The steps of one phase ("" for both) that have the metric, as a series over the step's place in the run.
Json series(const Json& steps, const char* label, const char* phase, const char* name) {
  Json x = Json::array(), y = Json::array();
  for (size_t i = 0; i < steps.size(); ++i) {
    const double value = metric(steps[i], name);
    if ((*phase != 0 && steps[i].value("phase", "") != phase) || !std::isfinite(value)) continue;
    x.push_back(i + 1);
    y.push_back(value);
  }
  return {{"label", label}, {"x", x}, {"y", y}};
}

// Shaded spans of the proposer's phases, so that a reader sees who was training.
Json bands(const Json& steps) {
  Json list = Json::array();
  for (size_t i = 0; i < steps.size();) {
    size_t end = i;
    while (end < steps.size() && steps[end].value("phase", "") == steps[i].value("phase", "")) ++end;
    if (steps[i].value("phase", "") == "proposer") {
      list.push_back(
          {{"from", i + 0.5}, {"to", end + 0.5}, {"label", "proposer " + std::to_string(steps[i].value("round", 0))}});
    }
    i = end;
  }
  return list;
}

void add(Json& figures, Json figure) {
  const auto empty = [](const Json& s) { return s["x"].empty(); };
  Json& list = figure["series"];
  list.erase(std::remove_if(list.begin(), list.end(), empty), list.end());
  if (!list.empty()) figures.push_back(std::move(figure));
}

void add_training(Json& figures, const Json& steps) {
  const Json shade = bands(steps);
  add(figures, {{"name", "dynamics"},
                {"kind", "lines"},
                {"title", "Training dynamics"},
                {"x", "step"},
                {"y", "share"},
                {"ylim", {0, 1}},
                {"bands", shade},
                {"series",
                 {series(steps, "Coder: right", "coder", "coder_accuracy"),
                  series(steps, "Proposer: valid", "proposer", "proposer_valid"),
                  series(steps, "frontier reward", "proposer", "frontier_reward"),
                  series(steps, "Coder: right and faster", "coder", "fast1")}}});
  add(figures, {{"name", "policy"},
                {"kind", "lines"},
                {"title", "Policy"},
                {"x", "step"},
                {"y", ""},
                {"bands", shade},
                {"series",
                 {series(steps, "entropy (nats a token)", "", "entropy"), series(steps, "KL to the start", "", "kl"),
                  series(steps, "clip fraction", "", "clip_fraction"),
                  series(steps, "groups with zero advantage", "", "zero_advantage_share"),
                  series(steps, "unscored", "", "unscored_rate")}}});
}

void add_frontier(Json& figures, const Json& frontier) {
  Json list = Json::array();
  Json labels = Json::array();
  for (int right = 0; right <= 8; ++right) labels.push_back(std::to_string(right));
  for (const Json& round : frontier) {
    double total = 0;
    for (const Json& n : round["right_of_8"]) total += n.get<double>();
    Json shares = Json::array();
    for (const Json& n : round["right_of_8"]) shares.push_back(total > 0 ? n.get<double>() / total : 0);
    list.push_back({{"label", "round " + std::to_string(round.value("round", 0))}, {"x", labels}, {"y", shares}});
  }
  if (list.empty()) return;
  figures.push_back({{"name", "frontier"},
                     {"kind", "bars"},
                     {"title", "Frontier: modules by right rollouts of 8"},
                     {"x", "right rollouts"},
                     {"y", "share of modules"},
                     {"series", list}});
}

void add_time(Json& figures, const Json& time) {
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [name, seconds] : time.items()) parts.emplace_back(number_from_json(seconds), name);
  std::sort(parts.rbegin(), parts.rend());
  Json x = Json::array(), y = Json::array();
  for (const auto& [seconds, name] : parts) {
    x.push_back(name);
    y.push_back(seconds);
  }
  if (x.empty()) return;
  figures.push_back({{"name", "time"},
                     {"kind", "bars"},
                     {"title", "Where the time went"},
                     {"y", "seconds"},
                     {"series", {{{"label", "seconds"}, {"x", x}, {"y", y}}}}});
}

void add_evaluation(Json& figures, const Json& evaluation) {
  Json pass = Json::array(), fast = Json::array();
  for (const char* when : {"before", "after"}) {
    const auto it = evaluation.find(when);
    if (it == evaluation.end()) continue;
    Json x = Json::array();
    const Json& curve = it->value("pass_at_k", Json::array());
    for (size_t k = 1; k <= curve.size(); ++k) x.push_back(k);
    pass.push_back({{"label", when}, {"x", x}, {"y", curve}});
    const Json& shares = it->value("fast_p", Json::array());
    if (shares.size() == std::size(kFastP)) fast.push_back({{"label", when}, {"x", kFastP}, {"y", shares}});
  }
  add(figures, {{"name", "pass_at_k"},
                {"kind", "lines"},
                {"title", "pass@k on held-out modules"},
                {"x", "k"},
                {"y", "pass@k"},
                {"ylim", {0, 1}},
                {"series", pass}});
  add(figures, {{"name", "fast_p"},
                {"kind", "lines"},
                {"title", "fast_p@1 on held-out modules"},
                {"x", "p (times eager)"},
                {"y", "fast_p@1"},
                {"ylim", {0, 1}},
                {"series", fast}});
}

void add_apis(Json& figures, const Json& apis) {
  std::vector<std::pair<int, std::string>> used;
  for (const Json& api : apis) used.emplace_back(api.value("modules", 0), api.value("name", ""));
  std::sort(used.rbegin(), used.rend());
  if (used.size() > 24) used.resize(24);
  Json x = Json::array(), y = Json::array();
  for (const auto& [modules, name] : used) {
    x.push_back(name.substr(name.rfind('.') + 1));
    y.push_back(modules);
  }
  if (x.empty()) return;
  figures.push_back({{"name", "apis"},
                     {"kind", "bars"},
                     {"title", "APIs in the Proposer's valid modules"},
                     {"y", "modules"},
                     {"series", {{{"label", "modules"}, {"x", x}, {"y", y}}}}});
}

}  // namespace

Json figure_specs(const Json& data) {
  Json figures = Json::array();
  add_training(figures, data.value("steps", Json::array()));
  add_frontier(figures, data.value("frontier", Json::array()));
  add_evaluation(figures, data.value("evaluation", Json::object()));
  add_time(figures, data.value("time", Json::object()));
  add_apis(figures, data.value("apis", Json::array()));
  return figures;
}

Result<std::map<std::string, std::string>> draw_figures(const Json& data, const Layout& layout) {
  KZ_ASSIGN(const std::string answer,
            run_program({layout.python.string(), "-m", "kz_figures"}, dump_json({{"figures", figure_specs(data)}}),
                        {"PYTHONPATH=" + layout.worker.string()}));
  KZ_ASSIGN(const Json drawn, parse_json(answer, "kz_figures"));
  std::map<std::string, std::string> figures;
  for (const auto& [name, svg] : drawn.at("svg").items()) figures[name] = svg.get<std::string>();
  return figures;
}

}  // namespace kz::bench
