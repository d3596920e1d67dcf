// The body of kernels_*.cpp: included once in each, after KZ_ISA (a namespace), KZ_LANES (floats a vector), KZ_ROWS
// (rows of a GEMM tile). No standard headers with inline functions here: they would be compiled for one instruction set
// and linked for all.
#pragma once

#include <math.h>
#include <string.h>

#include "lm/cpu/kernels.h"

namespace kz::lm::cpu {
namespace KZ_ISA {
namespace {

typedef float V __attribute__((vector_size(4 * KZ_LANES)));
typedef int32_t I __attribute__((vector_size(4 * KZ_LANES)));
constexpr int64_t kLanes = KZ_LANES;
constexpr int64_t kNr = 2 * kLanes;
constexpr int kRows = KZ_ROWS;

inline V load(const float* p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, V v) { memcpy(p, &v, sizeof v); }
inline V splat(float x) { return x - V{}; }
inline V max_of(V a, V b) { return a > b ? a : b; }
inline float sum_of(V v) {
  float t[kLanes];
  memcpy(t, &v, sizeof v);
  for (int64_t w = kLanes / 2; w > 0; w /= 2)
    for (int64_t i = 0; i < w; ++i) t[i] += t[i + w];
  return t[0];
}
inline float max_lane(V v) {
  float t[kLanes];
  memcpy(t, &v, sizeof v);
  float m = t[0];
  for (int64_t i = 1; i < kLanes; ++i) m = t[i] > m ? t[i] : m;
  return m;
}

// exp to about one ulp; 0 below -87, where the result would be denormal.
inline V exp_of(V x) {
  const V low = splat(-87.0f);
  const V c = x > splat(88.0f) ? splat(88.0f) : x;
  const V magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  const V n = (c * splat(1.44269504f) + magic) - magic;
  V r = c - n * splat(0.693359375f);
  r = r - n * splat(-2.12194440e-4f);
  V p = splat(1.9875691500e-4f);
  p = p * r + splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * r * r + r + splat(1.0f);
  const I e = (__builtin_convertvector(n, I) + 127) << 23;
  V scale;
  memcpy(&scale, &e, sizeof scale);
  return x < low ? V{} : p * scale;
}

template <int kM>
inline void tile(const float* x, int64_t ldx, const float* w, int64_t k, const float* bias, float* y, int64_t ldy,
                 int64_t width, bool add) {
  V acc[kM][2];
#pragma GCC unroll 16
  for (int i = 0; i < kM; ++i) acc[i][0] = acc[i][1] = V{};
  for (int64_t j = 0; j < k; ++j) {
    const V w0 = load(w + j * kNr), w1 = load(w + j * kNr + kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kM; ++i) {
      const V a = splat(x[i * ldx + j]);
      acc[i][0] = a * w0 + acc[i][0];
      acc[i][1] = a * w1 + acc[i][1];
    }
  }
  const V b0 = bias != nullptr ? load(bias) : V{}, b1 = bias != nullptr ? load(bias + kLanes) : V{};
#pragma GCC unroll 16
  for (int i = 0; i < kM; ++i) {
    const V s0 = acc[i][0] + b0, s1 = acc[i][1] + b1;
    float* out = y + i * ldy;
    if (width == kNr) {
      store(out, add ? load(out) + s0 : s0);
      store(out + kLanes, add ? load(out + kLanes) + s1 : s1);
    } else {
      float t[kNr];
      store(t, s0);
      store(t + kLanes, s1);
      for (int64_t c = 0; c < width; ++c) out[c] = add ? out[c] + t[c] : t[c];
    }
  }
}

template <int kM>
inline void rest(int64_t m, const float* x, int64_t ldx, const float* w, int64_t k, const float* bias, float* y,
                 int64_t ldy, int64_t width, bool add) {
  if constexpr (kM > 0) {
    if (m == kM) return tile<kM>(x, ldx, w, k, bias, y, ldy, width, add);
    rest<kM - 1>(m, x, ldx, w, k, bias, y, ldy, width, add);
  }
}

void gemm(const float* x, int64_t ldx, int64_t m, const Panels& w, float* y, int64_t ldy, bool add) {
  for (int64_t n = 0; n < w.n; n += kNr) {
    const float* panel = w.data + n * w.k;
    const float* bias = w.bias != nullptr && !add ? w.bias + n : nullptr;
    const int64_t width = w.n - n < kNr ? w.n - n : kNr;
    int64_t i = 0;
    for (; i + kRows <= m; i += kRows)
      tile<kRows>(x + i * ldx, ldx, panel, w.k, bias, y + i * ldy + n, ldy, width, add);
    rest<kRows - 1>(m - i, x + i * ldx, ldx, panel, w.k, bias, y + i * ldy + n, ldy, width, add);
  }
}

// 1 / rms(x). The order of the sum depends on d alone.
inline float inverse_rms(const float* x, float eps, int64_t d) {
  V s0{}, s1{};
  int64_t i = 0;
  for (; i + 2 * kLanes <= d; i += 2 * kLanes) {
    const V a = load(x + i), b = load(x + i + kLanes);
    s0 = a * a + s0;
    s1 = b * b + s1;
  }
  float sum = sum_of(s0 + s1);
  for (; i < d; ++i) sum += x[i] * x[i];
  return 1.0f / sqrtf(sum / static_cast<float>(d) + eps);
}

void rms_norm(const float* x, const float* w, float eps, int64_t d, float* y) {
  const float scale = inverse_rms(x, eps, d);
  int64_t i = 0;
  for (; i + kLanes <= d; i += kLanes) store(y + i, load(x + i) * splat(scale) * load(w + i));
  for (; i < d; ++i) y[i] = x[i] * scale * w[i];
}

// With s = 1 / rms: dx = s (w dy) - x s^3 / d sum(w dy x), dw += dy x s.
void rms_norm_grad(const float* x, const float* w, const float* dy, float eps, int64_t d, float* dx, float* dw) {
  const float scale = inverse_rms(x, eps, d);
  V dots{};
  int64_t i = 0;
  for (; i + kLanes <= d; i += kLanes) dots = load(w + i) * load(dy + i) * load(x + i) + dots;
  float dot = sum_of(dots);
  for (; i < d; ++i) dot += w[i] * dy[i] * x[i];
  const float pull = dot * scale * scale * scale / static_cast<float>(d);
  for (i = 0; i + kLanes <= d; i += kLanes) {
    const V a = load(x + i), g = load(dy + i);
    store(dx + i, splat(scale) * load(w + i) * g - splat(pull) * a);
    store(dw + i, load(dw + i) + g * a * splat(scale));
  }
  for (; i < d; ++i) {
    const float a = x[i], g = dy[i];
    dx[i] = scale * w[i] * g - pull * a;
    dw[i] += g * a * scale;
  }
}

void rope(const float* head, const float* cos, const float* sin, float direction, int64_t head_dim, float* out) {
  const int64_t half = head_dim / 2;
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const V a = load(head + i), b = load(head + half + i), c = load(cos + i), s = load(sin + i) * splat(direction);
    store(out + i, a * c - b * s);
    store(out + half + i, b * c + a * s);
  }
  for (; i < half; ++i) {
    const float a = head[i], b = head[half + i], s = sin[i] * direction;
    out[i] = a * cos[i] - b * s;
    out[half + i] = b * cos[i] + a * s;
  }
}

void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  const V one = splat(1.0f);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V g = load(gate + i);
    store(out + i, g / (one + exp_of(-g)) * load(up + i));
  }
  if (i < n) {
    float g[kLanes] = {}, u[kLanes] = {};
    memcpy(g, gate + i, static_cast<size_t>(n - i) * 4);
    memcpy(u, up + i, static_cast<size_t>(n - i) * 4);
    const V v = load(g);
    store(g, v / (one + exp_of(-v)) * load(u));
    memcpy(out + i, g, static_cast<size_t>(n - i) * 4);
  }
}

// With s = sigmoid(gate): d_gate = dy up s (1 + gate (1 - s)), d_up = dy gate s.
void swiglu_grad(const float* gate, const float* up, const float* dy, int64_t n, float* d_gate, float* d_up) {
  const V one = splat(1.0f);
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t m = n - i < kLanes ? n - i : kLanes;
    float t[3][kLanes] = {};
    V g, u, d;
    if (m == kLanes) {
      g = load(gate + i);
      u = load(up + i);
      d = load(dy + i);
    } else {
      memcpy(t[0], gate + i, static_cast<size_t>(m) * 4);
      memcpy(t[1], up + i, static_cast<size_t>(m) * 4);
      memcpy(t[2], dy + i, static_cast<size_t>(m) * 4);
      g = load(t[0]);
      u = load(t[1]);
      d = load(t[2]);
    }
    const V s = one / (one + exp_of(-g));
    const V dg = d * u * s * (one + g * (one - s)), du = d * g * s;
    if (m == kLanes) {
      store(d_gate + i, dg);
      store(d_up + i, du);
    } else {
      store(t[0], dg);
      store(t[1], du);
      memcpy(d_gate + i, t[0], static_cast<size_t>(m) * 4);
      memcpy(d_up + i, t[1], static_cast<size_t>(m) * 4);
    }
  }
}

float exp_sum(const float* x, int64_t n, float scale, float* p, float* max) {
  const float low = -INFINITY;
  V m = splat(low);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) m = max_of(load(x + i) * splat(scale), m);
  float top = max_lane(m);
  for (; i < n; ++i) top = x[i] * scale > top ? x[i] * scale : top;
  *max = top;
  V s{};
  for (i = 0; i + kLanes <= n; i += kLanes) {
    const V e = exp_of(load(x + i) * splat(scale) - splat(top));
    store(p + i, e);
    s = s + e;
  }
  if (i < n) {
    float t[kLanes];
    for (int64_t j = 0; j < kLanes; ++j) t[j] = i + j < n ? x[i + j] * scale - top : low;
    const V e = exp_of(load(t));
    s = s + e;
    store(t, e);
    memcpy(p + i, t, static_cast<size_t>(n - i) * 4);
  }
  return sum_of(s);
}

// Scores of kG query heads against one block of keys, head_dim deep.
template <int kG>
inline void block_scores(const float* q, int64_t head_dim, const float* keys, float* scores, int64_t lds) {
  constexpr int kParts = static_cast<int>(kBlock / kLanes) > 0 ? static_cast<int>(kBlock / kLanes) : 1;
  V acc[kG][kParts];
  for (int g = 0; g < kG; ++g)
    for (int p = 0; p < kParts; ++p) acc[g][p] = V{};
  for (int64_t d = 0; d < head_dim; ++d) {
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      const V k = load(keys + d * kBlock + p * kLanes);
#pragma GCC unroll 4
      for (int g = 0; g < kG; ++g) acc[g][p] = splat(q[g * head_dim + d]) * k + acc[g][p];
    }
  }
  for (int g = 0; g < kG; ++g)
    for (int p = 0; p < kParts; ++p) store(scores + g * lds + p * kLanes, acc[g][p]);
}

// out[g][from : from + 2 lanes] = sum over positions of p[g] * values.
template <int kG>
inline void mix_values(const PageRef* pages, int64_t n_pages, int64_t stride, int64_t from, const float* p, int64_t ldp,
                       float* out, int64_t head_dim) {
  constexpr int kParts = kBlock / kLanes > 1 ? 2 : 1;
  for (int64_t part = 0; part < kBlock / kLanes; part += kParts) {
    V acc[kG][kParts];
    for (int g = 0; g < kG; ++g)
      for (int c = 0; c < kParts; ++c) acc[g][c] = V{};
    int64_t at = 0;
    for (int64_t i = 0; i < n_pages; ++i) {
      const float* v = pages[i].values + from + part * kLanes;
      for (int64_t j = 0; j < pages[i].count; ++j, ++at, v += stride) {
#pragma GCC unroll 4
        for (int c = 0; c < kParts; ++c) {
          const V value = load(v + c * kLanes);
#pragma GCC unroll 4
          for (int g = 0; g < kG; ++g) acc[g][c] = splat(p[g * ldp + at]) * value + acc[g][c];
        }
      }
    }
    for (int g = 0; g < kG; ++g) {
      float t[kParts * kLanes];
      for (int c = 0; c < kParts; ++c) store(t + c * kLanes, acc[g][c]);
      for (int64_t c = 0; c < kParts * kLanes; ++c) {
        const int64_t d = from + part * kLanes + c;
        if (d < head_dim) out[g * head_dim + d] = t[c];
      }
    }
  }
}

template <int kG>
void attend_group(const float* q, int64_t head_dim, const PageRef* pages, int64_t n_pages, float* scores, float* out) {
  int64_t positions = 0;
  for (int64_t i = 0; i < n_pages; ++i) positions += pages[i].count;
  const int64_t lds = positions + kPage;  // a block may write up to kBlock past the last position
  int64_t at = 0;
  for (int64_t i = 0; i < n_pages; ++i) {
    for (int64_t b = 0; b * kBlock < pages[i].count; ++b)
      block_scores<kG>(q, head_dim, pages[i].keys + b * kBlock * head_dim, scores + at + b * kBlock, lds);
    at += pages[i].count;
  }
  float total[kG];
  for (int g = 0; g < kG; ++g) {
    float max;
    total[g] = exp_sum(scores + g * lds, positions, 1.0f, scores + g * lds, &max);
  }
  const int64_t stride = padded(head_dim);
  for (int64_t from = 0; from < head_dim; from += kBlock)
    mix_values<kG>(pages, n_pages, stride, from, scores, lds, out, head_dim);
  for (int g = 0; g < kG; ++g) {
    const float scale = 1.0f / total[g];
    for (int64_t d = 0; d < head_dim; ++d) out[g * head_dim + d] *= scale;
  }
}

void attend(const float* q, int64_t group, int64_t head_dim, const PageRef* pages, int64_t n_pages, float* scores,
            float* out) {
  while (group >= 4) {
    attend_group<4>(q, head_dim, pages, n_pages, scores, out);
    q += 4 * head_dim;
    out += 4 * head_dim;
    group -= 4;
  }
  if (group == 3) attend_group<3>(q, head_dim, pages, n_pages, scores, out);
  if (group == 2) attend_group<2>(q, head_dim, pages, n_pages, scores, out);
  if (group == 1) attend_group<1>(q, head_dim, pages, n_pages, scores, out);
}

constexpr Kernels make(const char* name) {
  return Kernels{kNr, name, gemm, rms_norm, rms_norm_grad, rope, swiglu, swiglu_grad, attend, exp_sum};
}

}  // namespace
}  // namespace KZ_ISA
}  // namespace kz::lm::cpu
