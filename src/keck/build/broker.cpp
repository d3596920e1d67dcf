#include "keck/build/broker.h"

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "keck/build/content_cache.h"
#include "keck/build/diagnostics.h"
#include "keck/build/outcome.h"
#include "keck/build/precompiled.h"
#include "keck/build/unit.h"

namespace kz::keck {
namespace {

constexpr const char* kCompiler = "/usr/bin/g++";
constexpr int kSchema = 1;
constexpr size_t kSourceBytes = 8 << 20;

// Flags as a shell would see them: torch joins the list into one command line.
std::vector<std::string> words(const std::vector<std::string>& flags) {
  std::vector<std::string> out;
  for (const std::string& flag : flags)
    for (const std::string& part : split(flag, ' '))
      if (!trim(part).empty()) out.emplace_back(trim(part));
  return out;
}

bool identifier(const std::string& name) {
  return !name.empty() &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
             std::string::npos &&
         (name[0] < '0' || name[0] > '9');
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string text;
  for (std::string line; std::getline(file, line) && !line.empty();)
    if (line.rfind("flags", 0) == 0 || line.rfind("model name", 0) == 0) text += line;
  return sha256_hex(text).substr(0, 16);
}

class Broker final : public BuildBroker {
 public:
  explicit Broker(const BrokerOptions& options) : options_(options) {}

  Status open() {
    if (!fs::exists(kCompiler)) return fail("toolchain", std::string("no ") + kCompiler + ": install g++");
    if (!fs::exists("/usr/bin/mold")) return fail("toolchain", "no /usr/bin/mold: install mold");
    KZ_ASSIGN(kit_, find_or_make_kit(options_.layout, kCompiler));
    processor_ = processor();
    const fs::path precompiled = options_.layout.state / "headers" / ("pch-" + kit_.host_key);
    KZ_TRY(make_dirs(precompiled));
    precompiled_ = std::make_unique<Precompiled>(kit_, precompiled, kCompiler);
    KZ_ASSIGN(cache_, ContentCache::open(options_.cache, options_.cache_bytes));

    const auto capabilities = sandbox::probe_capabilities();
    KZ_ASSIGN(const auto level, sandbox::choose(capabilities, options_.sandbox));
    auto binds = sandbox::toolchain_binds(options_.layout);
    places_ = Places::inside(kit_, precompiled, level, &binds);
    const fs::path slots = options_.cache / "slots";
    KZ_TRY(make_dirs(slots));
    KZ_ASSIGN(pool_, sandbox::SlotPool::make({.capabilities = capabilities,
                                              .level = level,
                                              .read_only = binds,
                                              .state = slots,
                                              .name = "keck-build",
                                              .max_slots = 64}));
    // The class of flags that most candidates use; the first build need not wait for it.
    KZ_ASSIGN(const Flags common, check_flags({"-O3"}, {}));
    if (auto made = precompiled_->slim(common); !made) return tl::unexpected(made.error());
    return {};
  }

  BuildResult build(const BuildRequest& request) override {
    const Stopwatch watch;
    BuildResult result = answer(request);
    result.seconds = watch.seconds();
    count(result);
    return result;
  }

  Json statistics() const override {
    std::lock_guard lock(mutex_);
    return {{"builds", builds_},
            {"hits", hits_},
            {"joined", joined_},
            {"misses", misses_},
            {"failed", failed_},
            {"full", full_},
            {"fallbacks", fallbacks_},
            {"cpu_seconds", cpu_seconds_},
            {"cache_bytes", cache_->bytes()},
            {"cache_entries", cache_->size()},
            {"evicted", cache_->evicted()},
            {"precompiled", precompiled_->statistics()}};
  }

  Json capabilities() const override {
    return {{"backends", {"cpp"}},
            {"compiler", std::string(kCompiler) + " " + kit_.compiler_version},
            {"torch", kit_.torch},
            {"python", kit_.python},
            {"shim", kit_.key},
            {"real_headers", fs::exists(kit_.python_include / "Python.h")},
            {"sandbox", pool_->describe()}};
  }

  fs::path shim() const override { return kit_.shim(); }

 private:
  // One build in flight, with those who wait for the same.
  struct Flight {
    bool done = false;
    Outcome outcome;
  };

  std::string key_of(const BuildRequest& request, const Flags& flags) const {
    Json parts = {kSchema,
                  request.backend,
                  request.name,
                  request.cpp_sources,
                  request.cuda_sources,
                  request.functions,
                  flags.compile,
                  flags.link,
                  request.implicit_headers,
                  kit_.key,
                  options_.headers,
                  flags.native ? processor_ : ""};
    return sha256_hex(dump_json(parts));
  }

  BuildResult answer(const BuildRequest& request) {
    if (request.backend != "cpp")
      return refusal("toolchain", "the backend " + request.backend + " can't be built on this host");
    const auto flags = check_flags(words(request.cflags), words(request.ldflags));
    if (!flags) return refusal(flags.error().code, flags.error().message);
    if (!identifier(request.name))
      return refusal("compile_error", "the extension's name '" + request.name + "' is no C++ identifier");
    size_t bytes = 0;
    for (const std::string& source : request.cpp_sources) bytes += source.size();
    if (bytes > kSourceBytes) return refusal("compile_error", "more than 8 MiB of source");

    const std::string key = key_of(request, *flags);
    std::shared_ptr<Flight> flight;
    {
      std::unique_lock lock(mutex_);
      if (const auto it = flights_.find(key); it != flights_.end()) {
        flight = it->second;
        finished_.wait(lock, [&] { return flight->done; });
        lock.unlock();
        return to_result(flight->outcome, request.name, "joined");
      }
      flight = flights_[key] = std::make_shared<Flight>();
    }
    const char* how = "hit";
    auto outcome = cached(key);
    if (!outcome) {
      how = "miss";
      outcome = compile(request, *flags);
      if (outcome->keepable()) store(key, *outcome);
    }
    {
      std::lock_guard lock(mutex_);
      flight->outcome = std::move(*outcome);
      flight->done = true;
      flights_.erase(key);
    }
    finished_.notify_all();
    return to_result(flight->outcome, request.name, how);
  }

  std::optional<Outcome> cached(const std::string& key) {
    const auto entry = cache_->get(key);
    return entry ? Outcome::from_text(entry->text, entry->object) : std::nullopt;
  }

  void store(const std::string& key, const Outcome& outcome) {
    if (auto put = cache_->put(key, outcome.to_text(), outcome.object); !put)
      log::warn("build cache: " + put.error().message);
  }

  static BuildResult refusal(const std::string& reason, const std::string& log) {
    BuildResult result;
    result.reason = reason;
    result.log = log + "\n";
    return result;
  }

  Outcome compile(const BuildRequest& request, const Flags& flags) {
    Outcome outcome;
    Unit unit;
    unit.name = request.name;
    unit.text = unit_of(request);
    unit.sources = request.cpp_sources;
    const Mentions mentions = mentions_of(unit.text);
    std::string why = needs_full(mentions, kit_, &unit.forwarders);
    if (flags.warnings_are_errors && why.empty()) why = "warnings are errors";
    if (!request.implicit_headers && why.empty() && !begins_with_extension(request))
      why = "does not begin with <torch/extension.h>";
    if (options_.headers == "full" && why.empty()) why = "asked for";
    if (why.empty()) {
      unit.headers = Headers::kSlim;
      unit.precompiled = precompiled_->slim(flags).value_or(fs::path()).filename().string();
      if (judge(unit, flags, mentions, &outcome, &why)) return outcome;
    }
    outcome.fallback = why;
    if (options_.headers == "slim") {
      outcome.reason = "toolchain";
      return outcome;
    }
    unit.headers = Headers::kFull;
    unit.forwarders.clear();
    unit.precompiled = precompiled_->full(flags).filename().string();
    unit.first_error_only = true;
    judge(unit, flags, mentions, &outcome, nullptr);
    return outcome;
  }

  // Compiles, and fills the outcome. False when a slim build failed in a way that only the real headers can judge, with
  // the reason in `why`.
  bool judge(const Unit& unit, const Flags& flags, const Mentions& mentions, Outcome* outcome, std::string* why) {
    CompileLimits limits;
    limits.cpu_seconds = std::max(1.0, options_.cpu_limit_s - outcome->cpu_seconds);
    limits.memory_bytes = options_.memory_mb << 20;
    auto compiled = compile_unit(*pool_, kCompiler, unit, flags, places_, limits);
    outcome->headers = to_string(unit.headers);
    if (!compiled) {
      outcome->reason = "toolchain";
      outcome->log = compiled.error().message + "\n";
      return true;
    }
    outcome->cpu_seconds += compiled->cpu_seconds;
    outcome->log = clean_log(compiled->output, folders());
    outcome->reason = compiled->reason;
    if (compiled->ok) {
      outcome->ok = true;
      outcome->object = read_all(compiled->object);
      return true;
    }
    if (!outcome->reason.empty()) return true;
    Diagnostic first;
    if (!first_error(compiled->output, &first)) {
      const bool linker = compiled->output.find("ld returned") != std::string::npos ||
                          compiled->output.find("mold: ") != std::string::npos;
      outcome->reason = linker ? "link_error" : "compile_error";
      if (linker || why == nullptr) return true;
      *why = "the compiler failed without an error: " + compiled->output.substr(0, 200);
      return false;
    }
    outcome->reason = "compile_error";
    if (why == nullptr) return true;
    *why = doubt(first, mentions, kit_);
    return why->empty();
  }

  // load() of files: each brings its own includes, and only a first <torch/extension.h> is what is precompiled.
  static bool begins_with_extension(const BuildRequest& request) {
    if (request.cpp_sources.size() != 1) return false;
    const Mentions mentions = mentions_of(request.cpp_sources[0]);
    return !mentions.includes.empty() && mentions.includes[0] == "torch/extension.h";
  }

  // Prefixes that the log must not show: a precompiled header remembers where it was made.
  std::vector<std::string> folders() const {
    std::vector<std::string> out;
    for (const Places& p : {places_, Places::on_host(kit_, precompiled_->dir())})
      for (const std::string& place : {p.slim, p.gen, p.torch, p.python, p.precompiled}) out.push_back(place + "/");
    return out;
  }

  void count(const BuildResult& result) {
    std::lock_guard lock(mutex_);
    ++builds_;
    hits_ += result.cache == "hit" ? 1 : 0;
    joined_ += result.cache == "joined" ? 1 : 0;
    misses_ += result.cache == "miss" ? 1 : 0;
    failed_ += result.ok ? 0 : 1;
    if (result.cache != "miss") return;
    cpu_seconds_ += result.cpu_seconds;
    if (result.headers == "full") {
      ++full_;
      ++fallbacks_[split(result.fallback, ' ').empty() ? "" : result.fallback];
    }
  }

  BrokerOptions options_;
  Kit kit_;
  Places places_;
  std::string processor_;
  std::unique_ptr<Precompiled> precompiled_;
  std::unique_ptr<ContentCache> cache_;
  std::unique_ptr<sandbox::SlotPool> pool_;
  mutable std::mutex mutex_;
  std::condition_variable finished_;
  std::map<std::string, std::shared_ptr<Flight>> flights_;
  std::map<std::string, int> fallbacks_;
  int builds_ = 0, hits_ = 0, joined_ = 0, misses_ = 0, failed_ = 0, full_ = 0;
  double cpu_seconds_ = 0;
};

}  // namespace

Result<std::unique_ptr<BuildBroker>> BuildBroker::start(const BrokerOptions& options) {
  auto broker = std::make_unique<Broker>(options);
  KZ_TRY(broker->open());
  return broker;
}

}  // namespace kz::keck
