#include "keck/worker/module_job.h"

namespace kz::keck {

Result<ModuleReport> run_module_job(Parts&, const ModuleRequest&, const std::atomic<bool>&) {
  return fail("unsupported", "the module gate is not built yet");
}

}  // namespace kz::keck
