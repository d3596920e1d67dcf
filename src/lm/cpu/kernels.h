// The arithmetic of a forward pass on the CPU, one set of functions an instruction set, chosen at run time.
// Every output element is one chain of operations whose order depends on its own row alone: a row's result is the same
// bits whatever rows are beside it. That is what a library GEMM does not promise, and why these are written by hand.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kz::lm::cpu {

// Positions of one block of keys; a page of the cache holds kPage positions.
inline constexpr int64_t kBlock = 16;
inline constexpr int64_t kPage = 32;

inline int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }

// W [n, k] of y = x W^T + b, in panels of `nr` rows: data[panel][k][nr], zero padded.
struct Panels {
  const float* data = nullptr;
  const float* bias = nullptr;  // padded to whole panels; may be null
  int64_t n = 0, k = 0;
};

// What one key-value head of one page holds: keys [kPage / kBlock][head_dim][kBlock], values [kPage][padded(head_dim)].
struct PageRef {
  const float* keys = nullptr;
  const float* values = nullptr;
  int64_t count = 0;  // positions that may be attended, in order
};

struct Kernels {
  int64_t nr = 0;  // width of a panel
  const char* name = "";
  // y[m, :n] = x[m, :k] W^T + b, or += with `add` (then no bias).
  void (*gemm)(const float* x, int64_t ldx, int64_t m, const Panels& w, float* y, int64_t ldy, bool add) = nullptr;
  // y = x / rms(x) * w, a row of d.
  void (*rms_norm)(const float* x, const float* w, float eps, int64_t d, float* y) = nullptr;
  // Its gradient: dx, and dw += ….
  void (*rms_norm_grad)(const float* x, const float* w, const float* dy, float eps, int64_t d, float* dx,
                        float* dw) = nullptr;
  // Rotates one head; cos and sin have head_dim / 2 values. `out` may be `head`. Direction 1, or -1 to turn back.
  void (*rope)(const float* head, const float* cos, const float* sin, float direction, int64_t head_dim,
               float* out) = nullptr;
  // out[i] = silu(gate[i]) * up[i].
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out) = nullptr;
  void (*swiglu_grad)(const float* gate, const float* up, const float* dy, int64_t n, float* d_gate,
                      float* d_up) = nullptr;
  // `group` query heads (rows of head_dim) over one key-value head; queries are scaled already. `scores` has room for
  // group * (positions + kPage) floats. out: group rows of head_dim.
  void (*attend)(const float* q, int64_t group, int64_t head_dim, const PageRef* pages, int64_t n_pages, float* scores,
                 float* out) = nullptr;
  // p[i] = exp(x[i] * scale - max), returns the sum; max = max(x * scale) is stored. n > 0. x may equal p.
  float (*exp_sum)(const float* x, int64_t n, float scale, float* p, float* max) = nullptr;
};

const Kernels& kernels();  // the best set for this machine; KZ_CPU=base|avx2|avx512 picks another that it has

const Kernels& kernels_base();
#if defined(__x86_64__)
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();
#endif

}  // namespace kz::lm::cpu
