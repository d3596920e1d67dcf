// The numbers of a run that people compare: summary.json, and what one round amounted to.
#pragma once

#include <map>
#include <string>

#include "base/json.h"
#include "evolve/options.h"
#include "evolve/store.h"

namespace kz::evolve {

// Means over the round's steps: coder_accuracy, coder_accuracy_fresh, proposer_valid, frontier_reward, modules,
// seconds, …
Result<std::map<std::string, double>> round_numbers(const Store& store, const EvolveOptions& options, int round);

// The object of summary.json (issue 4 fixes its keys). Shares are in [0, 1], NaN where not measured; verdicts and cache
// hits count loop and evaluations; cache hits are equal texts of this run; proposer_modules are distinct modules
// admitted.
Result<Json> summary_json(const Store& store, double wall_s, double peak_rss_mb);

}  // namespace kz::evolve
