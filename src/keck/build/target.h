// The backends that the broker can build for. A backend is: which compilers run, with which flags and headers.
#pragma once

#include <optional>
#include <string_view>

namespace kz::keck {

enum class Target { kCpp, kCuda };

inline std::string_view to_string(Target target) { return target == Target::kCpp ? "cpp" : "cuda"; }
inline std::optional<Target> target_from(std::string_view backend) {
  if (backend == "cpp") return Target::kCpp;
  if (backend == "cuda") return Target::kCuda;
  return std::nullopt;
}

// Which headers a unit is compiled against.
enum class Headers { kSlim, kFull };

inline std::string_view to_string(Headers headers) { return headers == Headers::kSlim ? "slim" : "full"; }

}  // namespace kz::keck
