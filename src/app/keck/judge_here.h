// Who judges for `check` and `check-module`: a server, or an evaluator of our own for one job.
#pragma once

#include <memory>

#include "app/keck/commands.h"
#include "keck/client/client.h"
#include "keck/worker/evaluator.h"

namespace kz::keck {

// The token comes from the environment variable KECK_TOKEN: an argument would show in the list of processes.
Result<Client> client_for(const Where& where);
Result<std::unique_ptr<Evaluator>> evaluator_for(const Where& where);

}  // namespace kz::keck
