// The build broker: turns one load_inline/load call of a candidate into a sealed shared object, cheaply (keck.md, part
// 4). Content cache (sources, flags, toolchain, headers) with in-flight dedup; slim headers first, the real ones where
// the first diagnostic cannot be trusted. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/layout.h"

namespace kz::keck {

struct BuildRequest {
  std::string name;     // extension name as the candidate gave it
  std::string backend;  // "cpp" | "cuda"
  std::vector<std::string> cpp_sources, cuda_sources;
  std::vector<std::string> functions;  // load_inline(functions=…): exported by name; docs are dropped
  std::vector<std::string> cflags, cuda_cflags, ldflags;  // checked against the allow-list
  // load_inline puts <torch/extension.h> before the sources and makes one file of them; load compiles each as it is.
  bool implicit_headers = true;
  bool real_headers = false;  // the real ones even where slim ones would do (best of n, corpus rows, comparisons)
};

struct BuildResult {
  bool ok = false;
  // "compile_error" "link_error" "forbidden_flag" "timeout" "memory": the candidate's. "toolchain": ours or the host's,
  // as is a header that is still being made; never a reward and never a fail.
  std::string reason;
  std::string log;          // lines point at the candidate's own source; capped
  std::string headers;      // "slim" | "full"
  std::string cache;        // "hit" | "miss" | "joined"
  std::string module_name;  // PyInit_<module_name>
  std::string fallback;     // why the real headers were needed, or empty
  Fd object;                // sealed memfd with the .so, when ok
  double seconds = 0, cpu_seconds = 0;
};

struct BrokerOptions {
  Layout layout;
  fs::path cache;                     // folder of the build cache
  uint64_t cache_bytes = 2ULL << 30;  // oldest are evicted
  double cpu_limit_s = 120;
  uint64_t memory_mb = 4096;
  std::string sandbox = "auto";  // level that compilers are confined at: "auto" | "strong" | "weak"
  // "auto"; "full": the real ones for every build; "slim": never the real ones (tests), what
  // needs them fails as "toolchain" with the reason in BuildResult.fallback.
  std::string headers = "auto";
  double precompile_wait_s = 900;  // how long a build waits for the real headers' precompiled form
  std::vector<std::string> linkers = {"mold", "gold", "lld", "bfd"};  // the first that is there
};

class BuildBroker {
 public:
  // Finds the toolchain and makes shim, operator index and precompiled header in the state folder if they are missing
  // or old.
  static Result<std::unique_ptr<BuildBroker>> start(const BrokerOptions& options);
  virtual ~BuildBroker() = default;
  virtual BuildResult build(const BuildRequest& request) = 0;
  virtual Json statistics() const = 0;    // builds, hits, joined, fallbacks by reason, cpu seconds
  virtual Json capabilities() const = 0;  // compilers and versions, shim key
  virtual fs::path shim() const = 0;      // libkz_shim.so: the zygote loads it once after torch
};

}  // namespace kz::keck
