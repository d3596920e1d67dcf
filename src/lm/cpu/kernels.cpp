#include "lm/cpu/kernels.h"

#include <cstdlib>
#include <string_view>

namespace kz::lm::cpu {

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    const char* text = std::getenv("KZ_CPU");
    const std::string_view want = text != nullptr ? text : "";
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (want != "avx2" && want != "base" && avx2 && __builtin_cpu_supports("avx512f")) return kernels_avx512();
    if (want != "base" && avx2) return kernels_avx2();
#endif
    return kernels_base();
  }();
  return chosen;
}

}  // namespace kz::lm::cpu
