#include "keck/build/broker.h"

#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "keck/build/builder.h"
#include "keck/build/content_cache.h"
#include "keck/build/flags.h"
#include "keck/build/outcome.h"

namespace kz::keck {
namespace {

constexpr int kSchema = 2;
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
    KZ_ASSIGN(builder_, Builder::make(options_));
    processor_ = processor();
    KZ_ASSIGN(cache_, ContentCache::open(options_.cache, options_.cache_bytes));
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
            {"precompiled", builder_->precompiled()}};
  }

  Json capabilities() const override {
    Json out = builder_->describe();
    out["backends"] = {"cpp"};
    return out;
  }

  fs::path shim() const override { return builder_->kit().shim(); }

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
                  builder_->kit().key,
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
      outcome = builder_->compile(request, *flags);
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
  std::string processor_;
  std::unique_ptr<Builder> builder_;
  std::unique_ptr<ContentCache> cache_;
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
