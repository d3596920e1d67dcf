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
constexpr int kSchema = 2;
constexpr double kHeaderCpuSeconds = 120;  // what the real headers cost without their precompiled form, and to spare
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
    KZ_ASSIGN(tools_.linker, find_linker(options_.linkers));
    KZ_ASSIGN(kit_, find_or_make_kit(options_.layout, kCompiler));
    processor_ = processor();
    const fs::path precompiled = options_.layout.state / "headers" / ("precompiled-" + kit_.host_key);
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
            {"linker", tools_.linker},
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
                  request.real_headers,
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
    unit.texts = units_of(request);
    unit.sources = request.cpp_sources;
    const Mentions mentions = mentions_of(join(unit.texts, "\n"));
    std::string why = needs_full(mentions, kit_, &unit.forwarders);
    unit.includes_first = request.implicit_headers || includes_extension_first(request);
    if (!unit.includes_first && why.empty()) why = "does not begin with <torch/extension.h>";
    if (flags.warnings_are_errors && why.empty()) why = "warnings are errors";
    if ((request.real_headers || options_.headers == "full") && why.empty()) why = "asked for";
    if (why.empty()) {
      compile_slim(unit, flags, &outcome);
      if (outcome.final()) return outcome;
      why = doubt_of(outcome, mentions);
      if (why.empty()) return outcome;
    }
    outcome.fallback = why;
    if (options_.headers == "slim") {
      outcome.reason = "toolchain";
      return outcome;
    }
    unit.headers = Headers::kFull;
    unit.forwarders.clear();
    unit.first_error_only = true;
    compile_full(unit, flags, &outcome);
    return outcome;
  }

  // Twice where a header of ours was gone, removed by hand between the look and the use.
  void compile_slim(Unit& unit, const Flags& flags, Outcome* outcome) {
    unit.headers = Headers::kSlim;
    for (int attempt = 0; attempt < 2; ++attempt) {
      unit.precompiled = precompiled_->slim(flags).value_or(fs::path()).filename().string();
      run(unit, flags, limits_after(*outcome), outcome);
      if (outcome->reason != "toolchain") return;
    }
  }

  // With the precompiled form, for which this build waits: without it every doubtful source would cost 40 CPU-seconds
  // and a gigabyte. Where it can't be had the headers' own cost is not the candidate's.
  void compile_full(Unit& unit, const Flags& flags, Outcome* outcome) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      unit.precompiled.clear();
      CompileLimits limits = limits_after(*outcome);
      if (unit.includes_first) {
        const auto header = precompiled_->full(flags, options_.precompile_wait_s);
        if (header) {
          unit.precompiled = header->filename().string();
        } else if (header.error().code == "busy") {
          outcome->reason = "toolchain";
          outcome->log = header.error().message + "\n";
          return;
        }
      }
      if (unit.precompiled.empty()) limits.cpu_seconds += kHeaderCpuSeconds;
      run(unit, flags, limits, outcome);
      if (outcome->reason != "toolchain") return;
    }
  }

  CompileLimits limits_after(const Outcome& outcome) const {
    CompileLimits limits;
    limits.cpu_seconds = std::max(1.0, options_.cpu_limit_s - outcome.cpu_seconds);
    limits.memory_bytes = options_.memory_mb << 20;
    return limits;
  }

  // Compiles, and fills the outcome: of a failure with what the compiler says as it stands.
  void run(const Unit& unit, const Flags& flags, const CompileLimits& limits, Outcome* outcome) {
    auto compiled = compile_unit(*pool_, tools_, unit, flags, places_, limits);
    outcome->headers = to_string(unit.headers);
    outcome->output.clear();
    if (!compiled) {
      outcome->reason = "toolchain";
      outcome->log = compiled.error().message + "\n";
      return;
    }
    outcome->cpu_seconds += compiled->cpu_seconds;
    outcome->log = clean_log(compiled->output, folders());
    outcome->reason = compiled->reason;
    outcome->ok = compiled->ok;
    if (compiled->ok) {
      outcome->object = read_all(compiled->object);
    } else if (outcome->reason.empty()) {
      outcome->output = std::move(compiled->output);
      outcome->reason = fault_of(outcome->output);
      // An assembler prints what a source tells it to: believe only what is so without the source too.
      if (outcome->reason == "toolchain" && works(unit, flags)) outcome->reason = "compile_error";
    }
  }

  // Whether these headers and tools build a source that is right.
  bool works(Unit unit, const Flags& flags) {
    unit.texts = {"int kz_control;\n"};
    const auto control = compile_unit(*pool_, tools_, unit, flags, places_, {});
    return control && control->ok;
  }

  // Why the failure of a slim build may be the slim headers', or "".
  std::string doubt_of(const Outcome& outcome, const Mentions& mentions) const {
    Diagnostic first;
    if (first_error(outcome.output, &first)) return doubt(first, mentions, kit_);
    return "the compiler failed without an error: " + outcome.output.substr(0, 200);
  }

  // load() of files: each brings its own includes. Whether <torch/extension.h> could as well stand before everything.
  static bool includes_extension_first(const BuildRequest& request) {
    return std::all_of(request.cpp_sources.begin(), request.cpp_sources.end(), extension_comes_first);
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
  Tools tools_ = {kCompiler, ""};
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
