#include "keck/build/unit.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "keck/build/source.h"

namespace kz::keck {
namespace {

constexpr const char* kObject = "extension.so";
constexpr const char* kForwarders = "brought";
constexpr uint64_t kObjectBytes = 64ULL << 20;
constexpr uint64_t kTemporaryBytes = 512ULL << 20;

std::string file_name(size_t i) { return i == 0 ? "main.cpp" : "main" + std::to_string(i) + ".cpp"; }

Status write_sources(sandbox::PrivateDir& dir, const Unit& unit) {
  for (size_t i = 0; i < unit.texts.size(); ++i)
    KZ_TRY(dir.write(file_name(i), "#define TORCH_EXTENSION_NAME " + unit.name + "\n" + unit.texts[i]));
  // g++ looks for the lines that it shows in files of the names that #line gives.
  for (size_t i = 0; i < unit.sources.size(); ++i) KZ_TRY(dir.write(source_name(i), unit.sources[i]));
  for (const std::string& header : std::set<std::string>(unit.forwarders.begin(), unit.forwarders.end()))
    KZ_TRY(dir.write(std::string(kForwarders) + "/" + header, ""));
  return {};
}

bool contains_any(const std::string& text, std::initializer_list<std::string_view> phrases) {
  return std::any_of(phrases.begin(), phrases.end(), [&](auto p) { return text.find(p) != std::string::npos; });
}

// Which limit ended a compilation, if any did. A linker or assembler that writes too much dies by a signal, of which
// the driver tells; a private folder that is full is the source's doing, since nothing else is in it.
std::string limit_of(const sandbox::RunResult& run, const std::string& output, const CompileLimits& limits) {
  if (contains_any(output, {"CPU time limit exceeded"})) return "timeout";
  // Compilers compute: one that ran out of wall time only was kept from it by the host.
  if (run.timed_out) return run.cpu_seconds >= limits.cpu_seconds ? "timeout" : "toolchain";
  if (run.oom ||
      contains_any(output, {"virtual memory exhausted", "out of memory allocating", "Killed signal terminated",
                            "annot allocate memory", "memory exhausted", "std::bad_alloc", "File size limit exceeded",
                            "Bus error signal terminated", "terminated with signal 25", "terminated with signal 7",
                            "No space left on device", "File too large"}))
    return "memory";
  return run.exit_code == 127 ? "toolchain" : "";
}

}  // namespace

Result<std::string> find_linker(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (fs::exists("/usr/bin/ld." + name)) return name;
  return fail("toolchain", "no linker: none of " + join(names, ", ") + " is in /usr/bin; install mold or binutils");
}

Places Places::on_host(const Kit& kit, const fs::path& precompiled) {
  return {kit.slim.string(), (kit.dir / "gen").string(), kit.torch_include.string(), kit.python_include.string(),
          precompiled.string()};
}

Places Places::inside(const Kit& kit, const fs::path& precompiled, sandbox::Level level,
                      std::vector<sandbox::Bind>* binds) {
  const Places host = on_host(kit, precompiled);
  const bool box = level == sandbox::Level::kStrong;
  const Places places = box ? Places{"/kz/slim", "/kz/gen", "/kz/torch", "/kz/python", "/kz/precompiled"} : host;
  for (const auto& member : {&Places::slim, &Places::gen, &Places::torch, &Places::python, &Places::precompiled}) {
    if (fs::exists(host.*member)) binds->push_back({host.*member, box ? fs::path(places.*member) : fs::path()});
  }
  return places;
}

std::vector<std::string> unit_flags(Headers headers, const Places& places) {
  std::vector<std::string> flags = {"-std=c++17", "-fPIC", "-DTORCH_API_INCLUDE_EXTENSION_H"};
  const auto folder = [&](const std::string& path) { flags.insert(flags.end(), {"-isystem", path}); };
  if (headers == Headers::kSlim) {
    folder(places.slim);
    folder(places.gen);
  }
  folder(places.torch);
  folder(places.torch + "/torch/csrc/api/include");
  folder(places.python);
  return flags;
}

std::vector<std::string> class_flags(const Flags& flags, const Kit& kit) {
  std::vector<std::string> kept;
  for (const std::string& flag : flags.precompiled) {
    const bool macro = flag.rfind("-D", 0) == 0 || flag.rfind("-U", 0) == 0;
    const std::string name = flag.substr(2, flag.find('=') == std::string::npos ? flag.npos : flag.find('=') - 2);
    if (!macro || kit.real.has(name)) kept.push_back(flag);
  }
  return kept;
}

Result<Compiled> compile_unit(sandbox::SlotPool& pool, const Tools& tools, const Unit& unit, const Flags& flags,
                              const Places& places, const CompileLimits& limits) {
  KZ_ASSIGN(auto dir, sandbox::PrivateDir::make(pool, kTemporaryBytes));
  KZ_TRY(write_sources(dir, unit));

  sandbox::RunSpec spec;
  spec.argv = {tools.compiler};
  if (!unit.forwarders.empty()) {
    // Before the torch folders: what is there already must not be read again.
    spec.argv.insert(spec.argv.end(), {"-isystem", kForwarders});
  }
  const auto common = unit_flags(unit.headers, places);
  spec.argv.insert(spec.argv.end(), common.begin(), common.end());
  if (!flags.warnings_are_errors) spec.argv.emplace_back("-w");
  spec.argv.insert(spec.argv.end(), flags.compile.begin(), flags.compile.end());
  spec.argv.emplace_back(unit.first_error_only ? "-Wfatal-errors" : "-fmax-errors=20");
  spec.argv.emplace_back("-fdiagnostics-color=never");
  if (unit.includes_first) {
    spec.argv.emplace_back("-include");
    spec.argv.push_back(unit.precompiled.empty() ? "torch/extension.h"
                                                 : places.precompiled + "/" + unit.precompiled + "/kz_unit.h");
  }
  spec.argv.insert(spec.argv.end(), {"-shared", "-fuse-ld=" + tools.linker, "-pipe"});
  for (size_t i = 0; i < unit.texts.size(); ++i) spec.argv.push_back(file_name(i));
  spec.argv.insert(spec.argv.end(), {"-o", kObject});
  spec.argv.insert(spec.argv.end(), flags.link.begin(), flags.link.end());
  spec.dir = &dir;
  spec.limits.cpu_seconds = limits.cpu_seconds;
  spec.limits.memory_bytes = limits.memory_bytes;
  spec.limits.processes = 64;
  spec.limits.tmp_bytes = kTemporaryBytes;
  spec.limits.stack_bytes = 64ULL << 20;
  spec.wall_seconds = limits.wall_seconds;
  KZ_ASSIGN(sandbox::RunResult run, sandbox::run_confined(pool, spec));

  Compiled compiled;
  compiled.cpu_seconds = run.cpu_seconds;
  compiled.output = run.err + run.out;
  if (!run.ok() && compiled.output.empty())
    compiled.output = run.signal != 0 ? "g++ was ended by signal " + std::to_string(run.signal) + "\n"
                                      : "g++ ended with exit code " + std::to_string(run.exit_code) + "\n";
  if (run.ok()) {
    KZ_ASSIGN(compiled.object, dir.take(kObject, kObjectBytes));
    compiled.ok = true;
  } else {
    compiled.reason = limit_of(run, compiled.output, limits);
    if (run.timed_out && compiled.reason == "toolchain")
      compiled.output = "the host gave the compiler " + std::to_string(run.cpu_seconds) + " CPU-seconds in " +
                        std::to_string(run.wall_seconds) + " s\n";
  }
  return compiled;
}

}  // namespace kz::keck
