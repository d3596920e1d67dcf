// One compilation as g++ sees it: flags, forwarders, the unit's text, and how it is run in the sandbox.
#pragma once

#include <string>
#include <vector>

#include "keck/build/flags.h"
#include "keck/build/kit.h"
#include "keck/build/target.h"
#include "keck/sandbox/run.h"

namespace kz::keck {

// Where a compiler sees the headers: in a box under names of their own, at level weak and outside at the host's.
struct Places {
  std::string slim, gen, torch, python, precompiled;

  static Places on_host(const Kit& kit, const fs::path& precompiled);
  // Those of the pool's compilers, and the binds that put them there.
  static Places inside(const Kit& kit, const fs::path& precompiled, sandbox::Level level,
                       std::vector<sandbox::Bind>* binds);
};

// What every unit is compiled with (include folders, standard, position independent), before the candidate's flags.
std::vector<std::string> unit_flags(Headers headers, const Places& places);
// Of the candidate's flags, those that change what a precompiled header holds; macros that no header names do not.
std::vector<std::string> class_flags(const Flags& flags, const Kit& kit);

// The programs of a build.
struct Tools {
  std::string compiler;
  std::string linker;  // as -fuse-ld= names it
};
// The first of these that this host has ("mold": /usr/bin/ld.mold). Error "toolchain" names them.
Result<std::string> find_linker(const std::vector<std::string>& names);

struct Unit {
  Headers headers = Headers::kSlim;
  std::string name;                     // module, a C identifier
  std::vector<std::string> texts;       // compiled each by itself, linked together
  bool includes_first = true;           // <torch/extension.h>, precompiled or not, before the text
  std::vector<std::string> sources;     // shown by g++ beside its messages
  std::vector<std::string> forwarders;  // headers that are there already: empty files
  std::string precompiled;              // name of the folder with kz_unit.h in Places::precompiled; empty: without
  bool first_error_only = false;        // stop there: cheap when it only matters whether it compiles
};

struct CompileLimits {
  double cpu_seconds = 120, wall_seconds = 600;  // the wall only ends what does not compute
  uint64_t memory_bytes = 4ULL << 30;
};

struct Compiled {
  bool ok = false;
  std::string output;  // of the compiler
  std::string reason;  // "" | "timeout" (of CPU) | "memory" (files too) | "toolchain": not the source's doing
  Fd object;           // sealed memfd
  double cpu_seconds = 0;
};

// Error "host" when the sandbox failed.
Result<Compiled> compile_unit(sandbox::SlotPool& pool, const Tools& tools, const Unit& unit, const Flags& flags,
                              const Places& places, const CompileLimits& limits);

}  // namespace kz::keck
