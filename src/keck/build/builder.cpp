#include "keck/build/builder.h"

#include <algorithm>

#include "base/text.h"
#include "keck/build/source.h"

namespace kz::keck {
namespace {

constexpr const char* kCompiler = "/usr/bin/g++";
constexpr double kHeaderCpuSeconds = 120;  // what the real headers cost without their precompiled form, and to spare

// load() of files: each brings its own includes. Whether <torch/extension.h> could as well stand before everything.
bool includes_extension_first(const BuildRequest& request) {
  return std::all_of(request.cpp_sources.begin(), request.cpp_sources.end(), extension_comes_first);
}

}  // namespace

Result<std::unique_ptr<Builder>> Builder::make(const BrokerOptions& options) {
  std::unique_ptr<Builder> builder(new Builder(options));
  KZ_TRY(builder->open());
  return builder;
}

Status Builder::open() {
  if (!fs::exists(kCompiler)) return fail("toolchain", std::string("no ") + kCompiler + ": install g++");
  tools_.compiler = kCompiler;
  KZ_ASSIGN(tools_.linker, find_linker(options_.linkers));
  KZ_ASSIGN(kit_, find_or_make_kit(options_.layout, kCompiler));
  const fs::path precompiled = options_.layout.state / "headers" / ("precompiled-" + kit_.host_key);
  KZ_TRY(make_dirs(precompiled));
  precompiled_ = std::make_unique<Precompiled>(kit_, precompiled, kCompiler);

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

Json Builder::describe() const {
  return {{"compiler", tools_.compiler + " " + kit_.compiler_version},
          {"linker", tools_.linker},
          {"torch", kit_.torch},
          {"python", kit_.python},
          {"shim", kit_.key},
          {"real_headers", fs::exists(kit_.python_include / "Python.h")},
          {"sandbox", pool_->describe()}};
}

Outcome Builder::compile(const BuildRequest& request, const Flags& flags) {
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
void Builder::compile_slim(Unit& unit, const Flags& flags, Outcome* outcome) {
  unit.headers = Headers::kSlim;
  for (int attempt = 0; attempt < 2; ++attempt) {
    unit.precompiled = precompiled_->slim(flags).value_or(fs::path()).filename().string();
    run(unit, flags, limits_after(*outcome), outcome);
    if (outcome->reason != "toolchain") return;
  }
}

// With the precompiled form, for which this build waits: without it every doubtful source would cost 40 CPU-seconds
// and a gigabyte. Where it can't be had the headers' own cost is not the candidate's.
void Builder::compile_full(Unit& unit, const Flags& flags, Outcome* outcome) {
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

CompileLimits Builder::limits_after(const Outcome& outcome) const {
  CompileLimits limits;
  limits.cpu_seconds = std::max(1.0, options_.cpu_limit_s - outcome.cpu_seconds);
  limits.memory_bytes = options_.memory_mb << 20;
  return limits;
}

// Compiles, and fills the outcome: of a failure with what the compiler says as it stands.
void Builder::run(const Unit& unit, const Flags& flags, const CompileLimits& limits, Outcome* outcome) {
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
bool Builder::works(Unit unit, const Flags& flags) {
  unit.texts = {"int kz_control;\n"};
  const auto control = compile_unit(*pool_, tools_, unit, flags, places_, {});
  return control && control->ok;
}

// Why the failure of a slim build may be the slim headers', or "".
std::string Builder::doubt_of(const Outcome& outcome, const Mentions& mentions) const {
  Diagnostic first;
  if (first_error(outcome.output, &first)) return doubt(first, mentions, kit_);
  return "the compiler failed without an error: " + outcome.output.substr(0, 200);
}

// Prefixes that the log must not show: a precompiled header remembers where it was made.
std::vector<std::string> Builder::folders() const {
  std::vector<std::string> out;
  for (const Places& p : {places_, Places::on_host(kit_, precompiled_->dir())})
    for (const std::string& place : {p.slim, p.gen, p.torch, p.python, p.precompiled}) out.push_back(place + "/");
  return out;
}

}  // namespace kz::keck
