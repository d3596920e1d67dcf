// The few operations of which the model is made, each with its gradient. Torch is visible here.
// Shapes: B sequences, T positions, H query heads, K key-value heads, h head width, D hidden.
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

}  // namespace kz::lm
