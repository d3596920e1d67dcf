// The report of a run: one self-contained HTML page, and its figures as SVG. Everything that it draws comes from one
// JSON (evolve/report_data.h makes it from run.db, `report --json` prints it, the live page will poll it):
//   run      {name, seed, started, wall_s, config}
//   summary  the object of summary.json
//   steps    [{round, phase: "proposer"|"coder", step, metrics: {name: number, …}}]   in order of time
//   frontier [{round, right_of_8: [n0 … n8]}]        modules by how many of their 8 rollouts were right
//   time     {part: seconds}
//   evaluation {before, after: {pass_at_k: [k=1 …], fast_p: [p in kFastP], accuracy, greedy, pass8}}
//   apis     [{name, modules, right, rollouts}]
//   rollouts [{round, phase, step, module, prompt, text, outcome, stage, reason, message, reward, advantage, speedup,
//   decision}]
// A part that a run does not have yet may be missing; the page then leaves its figure out and says so.
#pragma once

#include <map>
#include <string>

#include "base/json.h"
#include "base/layout.h"

namespace kz::bench {

inline constexpr double kFastP[] = {0, 0.5, 0.8, 1, 1.2, 1.5, 2};

// What python/kz_figures is asked to draw: a list of specs (see its docstring).
Json figure_specs(const Json& data);

// Name → SVG. Error "process" or "report" if the drawing program fails; the page can be made without.
Result<std::map<std::string, std::string>> draw_figures(const Json& data, const Layout& layout);

// The page. `figures` may be empty. Every text from a model is escaped: a rollout is hostile input here too.
Result<std::string> render_report(const Json& data, const std::map<std::string, std::string>& figures,
                                  const Layout& layout);

}  // namespace kz::bench
