#define KZ_ISA avx512
#define KZ_LANES 16
#define KZ_ROWS 12
#include "lm/cpu/kernels_impl.h"

namespace kz::lm::cpu {

const Kernels& kernels_avx512() {
  static constexpr Kernels kTable = avx512::make("avx512");
  return kTable;
}

}  // namespace kz::lm::cpu
