// The few operations of which the model is made, each with its gradient. Torch is visible here.
// In fp32 on the CPU each is one pass by the kernels of cpu/kernels.h, forward and backward; elsewhere it is made of
// torch's operations. Shapes: B sequences, T positions, H query heads, K key-value heads, h head width, D hidden.
#pragma once

#include "lm/torch.h"

namespace kz::lm {

// x / rms(x) * weight over the last dimension, in fp32 inside.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// Turns the halves of each head: x [B, T, heads, h], cos and sin [T, h / 2] (fp32).
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

// silu(gate) * up of gate_up [..., 2 F] -> [..., F].
at::Tensor swiglu(const at::Tensor& gate_up);

// Causal attention: q [B, T, H, h], k and v [B, T, K, h] -> [B, T, H * h].
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

// Rotation and causal attention of qkv [B, T, (H + 2 K) * h] -> [B, T, H * h].
at::Tensor rotated_attention(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin, int64_t heads,
                             int64_t kv_heads);

// x + a W^T: x [B, T, D], a [B, T, A], weight [D, A].
at::Tensor add_linear(const at::Tensor& x, const at::Tensor& a, const at::Tensor& weight);

// The same made of torch's operations on every device: what tests compare with.
namespace plain {
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
at::Tensor swiglu(const at::Tensor& gate_up);
at::Tensor rotated_attention(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin, int64_t heads,
                             int64_t kv_heads);
}  // namespace plain

}  // namespace kz::lm
