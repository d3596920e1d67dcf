#define KZ_ISA avx2
#define KZ_LANES 8
#define KZ_ROWS 6
#include "lm/cpu/kernels_impl.h"

namespace kz::lm::cpu {

const Kernels& kernels_avx2() {
  static constexpr Kernels kTable = avx2::make("avx2");
  return kTable;
}

}  // namespace kz::lm::cpu
