#include "lm/ops.h"

namespace kz::lm {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(at::mean(wide * wide, {-1}, /*keepdim=*/true) + eps);
  return (wide * scale * weight.to(at::kFloat)).to(x.scalar_type());
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  const at::Tensor c = cos.unsqueeze(1).to(x.scalar_type()), s = sin.unsqueeze(1).to(x.scalar_type());
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const int64_t group = q.size(2) / k.size(2);
  const auto expand = [&](const at::Tensor& t) {
    const at::Tensor heads = t.transpose(1, 2);
    return group == 1 ? heads : at::repeat_interleave(heads, group, 1);
  };
  const at::Tensor mixed =
      at::scaled_dot_product_attention(q.transpose(1, 2), expand(k), expand(v), {}, 0.0, /*is_causal=*/true);
  return mixed.transpose(1, 2).reshape({q.size(0), q.size(1), q.size(2) * q.size(3)});
}

}  // namespace kz::lm
