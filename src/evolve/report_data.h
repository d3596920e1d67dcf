// What a report of a run draws, read from its run.db: the JSON that bench/report.h describes and `report --json`
// prints.
#pragma once

#include "base/json.h"
#include "evolve/store.h"

namespace kz::evolve {

struct ReportOptions {
  int rollouts = 200;  // single rollouts to show: an even sample over the run's steps, right and wrong, both roles
};

// `folder` is a run folder; a run that is not finished gives what it has so far. Errors of the store are one line.
Result<Json> report_data(const fs::path& folder, const ReportOptions& options = {});

}  // namespace kz::evolve
