// JSON schemas of what crosses the API, by name, as /openapi.json shows them.
#pragma once

#include "base/json.h"

namespace kz::keck {

// EvaluationRequest, ModuleRequest, Verdict, ModuleReport, JobStatus, BatchRow, BatchAccepted, Batch, Health, Error, …
Json schemas();

}  // namespace kz::keck
