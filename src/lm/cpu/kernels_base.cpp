#define KZ_ISA base
#define KZ_LANES 4
#define KZ_ROWS 4
#include "lm/cpu/kernels_impl.h"

namespace kz::lm::cpu {

const Kernels& kernels_base() {
  static constexpr Kernels kTable = base::make("base");
  return kTable;
}

}  // namespace kz::lm::cpu
