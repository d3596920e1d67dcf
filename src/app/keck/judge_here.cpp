#include "app/keck/judge_here.h"

#include <cstdlib>

#include "app/keck/files.h"

namespace kz::keck {

Result<Client> client_for(const Where& where) {
  ClientOptions options;
  options.url = where.server;
  options.retry_s = 5;
  if (const char* token = std::getenv("KECK_TOKEN")) options.token = token;
  return Client::make(options);
}

Result<std::unique_ptr<Evaluator>> evaluator_for(const Where& where) {
  EvaluatorOptions options;
  KZ_ASSIGN(options.layout, find_layout());
  options.state = state_folder(where.state, options.layout);
  options.workers = 1;
  options.sandbox = where.sandbox;
  return Evaluator::start(options);
}

}  // namespace kz::keck
