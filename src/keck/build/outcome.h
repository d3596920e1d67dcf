// What one build came to, as it is kept in the cache and handed to everyone who asked for it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "keck/build/broker.h"

namespace kz::keck {

struct Outcome {
  bool ok = false;
  std::string reason, log, headers, fallback;
  std::string object;  // the shared object's bytes, when ok
  double cpu_seconds = 0;
  std::string output;  // of a compiler that said no, as it came; not kept

  // Not the compiler's word on the source: it needs no second look.
  bool final() const { return reason != "compile_error"; }
  // Whether the same request would come to the same again: not what a limit or a fault of ours ended.
  bool keepable() const { return ok || reason == "compile_error" || reason == "link_error"; }

  std::string to_text() const;  // without the object
  static std::optional<Outcome> from_text(std::string_view text, std::string_view object);
};

// `cache` is "hit", "miss" or "joined"; only a miss cost anything.
BuildResult to_result(const Outcome& outcome, const std::string& name, const std::string& cache);

std::string read_all(const Fd& object);
Result<Fd> sealed_memfd(std::string_view bytes);

}  // namespace kz::keck
