// The configuration of `keck serve`: TOML, with the command line over it.
#pragma once

#include <string>

#include "app/keck/commands.h"
#include "base/layout.h"
#include "base/log.h"
#include "keck/api/http_server.h"
#include "keck/api/service.h"

namespace kz::keck {

struct ServeOptions {
  HttpServerOptions http;
  JobsOptions jobs;
  ServiceOptions service;
  EvaluatorOptions evaluator;
  fs::path state;
  log::Level log_level = log::Level::kInfo;
  std::string resolved;  // as TOML
};

Result<ServeOptions> serve_options(const ServeCommand& command, const Layout& layout);

}  // namespace kz::keck
