#include "keck/worker/parts.h"

#include <algorithm>
#include <fstream>
#include <thread>

#include "base/log.h"

namespace kz::keck {
namespace {

constexpr int kWarmReferences = 12;  // idle; some 20 MB each
constexpr int kChildrenAWorker = 4;  // candidate, audit, reference and one that is being killed

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown";
}

}  // namespace

Result<std::unique_ptr<Parts>> Parts::start(const EvaluatorOptions& options) {
  auto parts = std::unique_ptr<Parts>(new Parts(options));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  parts->workers = options.workers > 0 ? options.workers : cores;
  parts->build_places_.resize(cores);
  parts->device = "cpu: " + cpu_name();
  parts->capabilities = sandbox::probe_capabilities();
  KZ_ASSIGN(parts->level, sandbox::choose(parts->capabilities, options.sandbox));
  KZ_TRY(make_dirs(options.state));
  KZ_ASSIGN(parts->names, ApiNames::load(options.layout.root / "data" / "apis" / "catalogue.json"));

  BrokerOptions broker;
  broker.layout = options.layout;
  broker.cache = options.state / "build";
  broker.cache_bytes = options.build_cache_mb << 20;
  KZ_ASSIGN(parts->broker, BuildBroker::start(broker));

  auto binds = sandbox::worker_binds(options.layout);
  if (const fs::path shim = parts->broker->shim(); !shim.empty()) binds.push_back({shim.parent_path(), {}});
  KZ_ASSIGN(parts->slots,
            sandbox::SlotPool::make({.capabilities = parts->capabilities,
                                     .level = parts->level,
                                     .read_only = binds,
                                     .state = options.state / "slots",
                                     .name = "keck-worker",
                                     .max_slots = kChildrenAWorker * parts->workers + kWarmReferences + 16}));
  KZ_ASSIGN(parts->judges, Judges::start(options.layout, cores));
  parts->references = std::make_unique<References>([p = parts.get()] { return p->start_child(); }, kWarmReferences);
  KZ_TRY(parts->zygote());
  return parts;
}

Parts::~Parts() {
  if (references) references->clear();
}

ZygoteOptions Parts::zygote_options() const {
  return {.layout = options.layout,
          .shim = broker->shim(),
          .log = options.state / "zygote.log",
          .catalogue = names.entries,
          .interpret = true};
}

Result<std::shared_ptr<Zygote>> Parts::zygote() {
  std::unique_lock lock(zygote_mutex_);
  if (zygote_ && zygote_->alive()) return zygote_;
  if (zygote_) {
    log::warn("the zygote died; its log is " + (options.state / "zygote.log").string() + "; starting another");
    counters.add("zygote_restarts");
    zygote_.reset();
    references->clear();
  }
  KZ_ASSIGN(auto fresh, Zygote::start(zygote_options()));
  zygote_ = std::move(fresh);
  return zygote_;
}

Result<std::unique_ptr<Child>> Parts::start_child() {
  KZ_ASSIGN(auto parent, zygote());
  sandbox::Limits limits;
  limits.memory_bytes = options.memory_mb << 20;
  counters.add("children");
  auto child = Child::start({parent, *slots, [this](const BuildRequest& request) { return build(request); }}, limits);
  if (!child) return fail("host", child.error().message);
  return child;
}

BuildResult Parts::build(const BuildRequest& request) {
  timing.wait_quiet();
  const auto place = build_places_.acquire();
  BuildResult result = broker->build(request);
  counters.add("builds");
  counters.add("build_cpu_seconds", result.cpu_seconds);
  if (!result.ok) counters.add("builds_failed");
  return result;
}

Json Parts::zygote_ready() const {
  std::lock_guard lock(zygote_mutex_);
  return zygote_ ? zygote_->ready() : Json::object();
}

uint64_t Parts::forks() const {
  std::lock_guard lock(zygote_mutex_);
  return zygote_ ? zygote_->forks() : 0;
}

}  // namespace kz::keck
