#include "keck/build/flags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <unordered_set>

namespace kz::keck {
namespace {

bool starts(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

// Letters, digits and a few signs: nothing that could be a path, a list or a file of arguments.
bool simple(std::string_view text, std::string_view signs) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || signs.find(c) != std::string_view::npos;
  });
}

const std::unordered_set<std::string_view>& optimisations() {
  static const std::unordered_set<std::string_view> names = {"openmp",
                                                             "openmp-simd",
                                                             "fast-math",
                                                             "unroll-loops",
                                                             "unroll-all-loops",
                                                             "tree-vectorize",
                                                             "vectorize",
                                                             "tree-loop-vectorize",
                                                             "tree-slp-vectorize",
                                                             "slp-vectorize",
                                                             "inline-functions",
                                                             "inline",
                                                             "omit-frame-pointer",
                                                             "strict-aliasing",
                                                             "strict-overflow",
                                                             "wrapv",
                                                             "math-errno",
                                                             "trapping-math",
                                                             "signed-zeros",
                                                             "rounding-math",
                                                             "finite-math-only",
                                                             "associative-math",
                                                             "reciprocal-math",
                                                             "unsafe-math-optimizations",
                                                             "cx-limited-range",
                                                             "signaling-nans",
                                                             "semantic-interposition",
                                                             "PIC",
                                                             "pic",
                                                             "exceptions",
                                                             "rtti",
                                                             "stack-protector",
                                                             "lto-none",
                                                             "prefetch-loop-arrays",
                                                             "peel-loops",
                                                             "split-loops",
                                                             "loop-interchange",
                                                             "loop-nest-optimize",
                                                             "graphite-identity",
                                                             "ipa-pta",
                                                             "devirtualize-at-ltrans",
                                                             "modulo-sched",
                                                             "gcse-after-reload",
                                                             "tree-loop-distribution",
                                                             "tree-partial-pre",
                                                             "single-precision-constant",
                                                             "permissive",
                                                             "data-sections",
                                                             "function-sections",
                                                             "asynchronous-unwind-tables",
                                                             "unwind-tables",
                                                             "threadsafe-statics",
                                                             "common",
                                                             "plt",
                                                             "merge-constants",
                                                             "expensive-optimizations",
                                                             "rename-registers",
                                                             "schedule-insns",
                                                             "schedule-insns2",
                                                             "unswitch-loops",
                                                             "version-loops-for-strides",
                                                             "split-paths",
                                                             "tree-loop-im",
                                                             "tree-loop-ivcanon",
                                                             "ivopts",
                                                             "align-functions",
                                                             "align-loops",
                                                             "delete-null-pointer-checks",
                                                             "builtin",
                                                             "char8_t",
                                                             "concepts",
                                                             "coroutines",
                                                             "diagnostics-color"};
  return names;
}

// -fNAME, -fno-NAME and a few with values.
bool code_flag(std::string_view flag) {
  std::string_view name = flag.substr(2);
  if (starts(name, "no-")) name.remove_prefix(3);
  if (optimisations().count(name) != 0) return true;
  const size_t equal = name.find('=');
  if (equal == std::string_view::npos) return false;
  const std::string_view key = name.substr(0, equal), value = name.substr(equal + 1);
  for (std::string_view known : {"visibility", "ffp-contract", "fp-contract", "vect-cost-model", "simd-cost-model",
                                 "excess-precision", "template-depth", "constexpr-depth", "tls-model", "inline-limit",
                                 "max-errors", "diagnostics-color", "align-loops", "align-functions"})
    if (key == known) return simple(value, "-");
  return false;
}

bool target_flag(std::string_view flag) {
  if (starts(flag, "-march=") || starts(flag, "-mtune=") || starts(flag, "-mprefer-vector-width=") ||
      starts(flag, "-mfpmath=") || starts(flag, "-mveclibabi=none") || starts(flag, "-mrecip"))
    return simple(flag.substr(1), "-=.+,!");
  constexpr std::array kNames = {"avx",        "sse",  "ssse3",  "fma",    "f16c",   "bmi",          "popcnt",
                                 "lzcnt",      "abm",  "aes",    "pclmul", "adx",    "movbe",        "amx",
                                 "vzeroupper", "64",   "no-avx", "no-sse", "no-fma", "no-recip",     "no-vzeroupper",
                                 "gfni",       "vaes", "rdrnd",  "prfchw", "sha",    "stackrealign", "no-red-zone"};
  const std::string_view name = flag.substr(2);
  return simple(name, "-.") &&
         std::any_of(kNames.begin(), kNames.end(), [&](std::string_view n) { return starts(name, n); });
}

enum class Kind { kForbidden, kPlain, kPrecompiled, kOptimise, kWarning };

Kind kind_of(const std::string& flag) {
  if (flag == "-O" || flag == "-O0" || flag == "-O1" || flag == "-O2" || flag == "-O3" || flag == "-Ofast" ||
      flag == "-Os" || flag == "-Og")
    return Kind::kOptimise;
  if (flag == "-fopenmp" || flag == "-fopenmp-simd" || flag == "-pthread") return Kind::kPrecompiled;
  if (flag == "-w" || flag == "-pipe" || flag == "-pedantic" || flag == "-ansi-none") return Kind::kWarning;
  if (starts(flag, "-std=") && simple(std::string_view(flag).substr(5), "+")) return Kind::kPrecompiled;
  if ((starts(flag, "-D") || starts(flag, "-U")) && flag.size() > 2) {
    const std::string_view name =
        std::string_view(flag).substr(2, flag.find('=') == std::string::npos ? std::string::npos : flag.find('=') - 2);
    return simple(name, "_") ? Kind::kPrecompiled : Kind::kForbidden;
  }
  if (flag == "-g" || flag == "-g0" || flag == "-g1" || flag == "-g2" || flag == "-g3" || flag == "-ggdb")
    return Kind::kPlain;
  if (starts(flag, "-W") && flag.find(',') == std::string::npos && simple(std::string_view(flag).substr(1), "-=+"))
    return Kind::kWarning;
  if (starts(flag, "-f") && flag.size() > 2 && code_flag(flag)) return Kind::kPrecompiled;
  if (starts(flag, "-m") && flag.size() > 2 && target_flag(flag)) return Kind::kPrecompiled;
  return Kind::kForbidden;
}

bool link_flag(const std::string& flag) {
  static const std::unordered_set<std::string_view> allowed = {"-lm",
                                                               "-lgomp",
                                                               "-lpthread",
                                                               "-ldl",
                                                               "-lrt",
                                                               "-lc",
                                                               "-lstdc++",
                                                               "-lgcc_s",
                                                               "-lgcc",
                                                               "-lc10",
                                                               "-ltorch",
                                                               "-ltorch_cpu",
                                                               "-ltorch_python",
                                                               "-fopenmp",
                                                               "-pthread",
                                                               "-shared",
                                                               "-O2",
                                                               "-O3",
                                                               "-O1",
                                                               "-s",
                                                               "-g",
                                                               "-march=native",
                                                               "-fPIC",
                                                               "-Wl,-O1",
                                                               "-Wl,--as-needed",
                                                               "-Wl,--no-as-needed",
                                                               "-Wl,--no-undefined-version",
                                                               "-Wl,-z,now",
                                                               "-Wl,-z,relro",
                                                               "-Wl,--gc-sections",
                                                               "-Wl,--strip-all",
                                                               "-static-libstdc++",
                                                               "-static-libgcc"};
  return allowed.count(flag) != 0;
}

}  // namespace

Result<Flags> check_flags(const std::vector<std::string>& cflags, const std::vector<std::string>& ldflags) {
  Flags flags;
  bool optimised = false;
  for (const std::string& flag : cflags) {
    switch (kind_of(flag)) {
      case Kind::kForbidden:
        return fail("forbidden_flag", "the compiler flag " + flag + " is not allowed");
      case Kind::kOptimise:
        optimised = flag != "-O0";
        if (flag == "-Ofast" || flag == "-Os") flags.precompiled.push_back(flag);
        break;
      case Kind::kPrecompiled:
        flags.precompiled.push_back(flag);
        break;
      case Kind::kPlain:
      case Kind::kWarning:
        break;
    }
    flags.native = flags.native || flag == "-march=native" || flag == "-mtune=native";
    flags.warnings_are_errors = flags.warnings_are_errors || starts(flag, "-Werror");
    flags.compile.push_back(flag);
  }
  // Levels that differ only in how much is optimised share a precompiled header.
  if (optimised) flags.precompiled.push_back("-O2");
  for (const std::string& flag : ldflags) {
    if (!link_flag(flag)) return fail("forbidden_flag", "the linker flag " + flag + " is not allowed");
    // The torch libraries are there already, behind the shim.
    if (flag.rfind("-lc10", 0) == 0 || flag.rfind("-ltorch", 0) == 0) continue;
    flags.link.push_back(flag);
  }
  return flags;
}

}  // namespace kz::keck
