// One Proposer module through the gate (design.md, part 6): facts from a child, the decision from module_gate.h.
#pragma once

#include "keck/worker/parts.h"

namespace kz::keck {

// Error: the host's fault.
Result<ModuleReport> run_module_job(Parts& parts, const ModuleRequest& request, const std::atomic<bool>& cancelled);

}  // namespace kz::keck
