#include "app/keck/serve_options.h"

#include <cstdlib>

#include "app/keck/files.h"
#include "base/config.h"
#include "base/text.h"

namespace kz::keck {
namespace {

std::string quoted(const std::string& text) { return dump_json(Json(text)); }

template <typename Number>
Number ranged(Config& config, const std::string& key, Number fallback, Number low, Number high) {
  const Number value = config.get(key, fallback);
  if (value >= low && value <= high) return value;
  config.reject(key, "must be from " + Json(low).dump() + " to " + Json(high).dump());
  return fallback;
}

// The token is never a command-line argument of ours: those show in the list of processes.
Result<std::string> token_of(Config& config) {
  std::string given = config.get("token", "");
  const std::string file = config.get("token_file", "");
  if (!given.empty()) return given;
  if (!file.empty()) return read_file(file, 4096).map([](const std::string& text) { return std::string(trim(text)); });
  const char* environment = std::getenv("KECK_TOKEN");
  return std::string(environment ? environment : "");
}

log::Level level_of(Config& config) {
  const std::string word = config.get("log.level", "info");
  const std::vector<std::string> known = {"debug", "info", "warn", "error"};
  for (size_t i = 0; i < known.size(); ++i)
    if (word == known[i]) return static_cast<log::Level>(i);
  config.reject("log.level", "must be one of debug, info, warn, error");
  return log::Level::kInfo;
}

std::vector<std::string> overrides_of(const ServeCommand& command) {
  std::vector<std::string> overrides = command.overrides;
  if (!command.listen.empty()) overrides.push_back("listen=" + quoted(command.listen));
  if (!command.state.empty()) overrides.push_back("state=" + quoted(command.state));
  if (!command.sandbox.empty()) overrides.push_back("sandbox=" + quoted(command.sandbox));
  if (command.workers > 0) overrides.push_back("workers=" + std::to_string(command.workers));
  return overrides;
}

}  // namespace

Result<ServeOptions> serve_options(const ServeCommand& command, const Layout& layout) {
  const auto overrides = overrides_of(command);
  KZ_ASSIGN(Config config, command.config.empty() ? Config::parse("", "the command line", overrides)
                                                  : Config::load(command.config, overrides));
  ServeOptions options;
  constexpr int64_t kMega = 1 << 20;
  KZ_TRY(parse_listen(config.get("listen", "127.0.0.1:8787"), options.http.host, options.http.port));
  options.state = state_folder(config.get("state", ""), layout);
  options.http.body_limit = static_cast<uint64_t>(ranged<int64_t>(config, "limits.body_mb", 16, 1, 1024) * kMega);
  options.http.max_connections = static_cast<int>(ranged<int64_t>(config, "limits.connections", 1024, 1, 65536));
  options.service.max_wait_s = ranged(config, "limits.wait_s", 120.0, 0.0, 3600.0);
  options.service.drain_s = ranged(config, "drain_s", 30.0, 0.0, 3600.0);
  KZ_ASSIGN(options.service.token, token_of(config));
  options.jobs.queue_limit = static_cast<size_t>(ranged<int64_t>(config, "queue.limit", 4096, 1, 10'000'000));
  options.jobs.queue_bytes =
      static_cast<uint64_t>(ranged<int64_t>(config, "queue.memory_mb", 1024, 1, 1 << 20) * kMega);
  options.jobs.journal.file = options.state / "journal.db";
  options.jobs.journal.keep_s = 3600 * ranged(config, "journal.keep_hours", 72.0, 0.0, 1e6);
  options.jobs.resume = config.get("journal.resume", true);
  options.jobs.journal.result_cache_bytes =
      static_cast<uint64_t>(ranged<int64_t>(config, "cache.results_mb", 256, 0, 1 << 20) * kMega);
  options.evaluator.layout = layout;
  options.evaluator.state = options.state;
  options.evaluator.workers = static_cast<int>(ranged<int64_t>(config, "workers", 0, 0, 4096));
  options.service.workers = options.evaluator.workers;
  options.evaluator.sandbox = config.get("sandbox", "auto");
  if (options.evaluator.sandbox != "auto" && options.evaluator.sandbox != "strong" &&
      options.evaluator.sandbox != "weak")
    config.reject("sandbox", "must be one of auto, strong, weak");
  options.evaluator.max_deadline_s = ranged(config, "deadline.max_s", 600.0, 1.0, 86400.0);
  options.evaluator.default_deadline_s =
      ranged(config, "deadline.default_s", 60.0, 1.0, options.evaluator.max_deadline_s);
  options.evaluator.memory_mb = static_cast<uint64_t>(ranged<int64_t>(config, "limits.memory_mb", 2048, 64, 1 << 20));
  options.evaluator.build_cache_mb = static_cast<uint64_t>(ranged<int64_t>(config, "cache.build_mb", 2048, 1, 1 << 20));
  options.log_level = level_of(config);
  KZ_TRY(config.finish());
  options.resolved = config.resolved();
  return options;
}

}  // namespace kz::keck
