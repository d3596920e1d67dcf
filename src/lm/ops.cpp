#include "lm/ops.h"

#include <ATen/Parallel.h>

#include "lm/cpu/kernels.h"

namespace kz::lm {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool fused(const at::Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat; }

// Rows a task: enough work to be worth a thread, and a cut that does not depend on their number.
constexpr int64_t kGrain = 128;

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in, const at::Tensor& weight, double eps) {
    const at::Tensor x = x_in.contiguous();
    at::Tensor y = at::empty_like(x);
    const int64_t d = x.size(-1), rows = x.numel() / d;
    const float *from = x.const_data_ptr<float>(), *w = weight.const_data_ptr<float>();
    auto* to = y.data_ptr<float>();
    at::parallel_for(0, rows, kGrain, [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) cpu::kernels().rms_norm(from + i * d, w, static_cast<float>(eps), d, to + i * d);
    });
    ctx->save_for_backward({x, weight});
    ctx->saved_data["eps"] = eps;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], dy = grads[0].contiguous();
    const auto eps = static_cast<float>(ctx->saved_data["eps"].toDouble());
    const int64_t d = x.size(-1), rows = x.numel() / d;
    // The weight's gradient is summed in parts whose borders depend on the rows alone, so the sum's bits do too.
    const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(32, rows / kGrain)), per = (rows + parts - 1) / parts;
    at::Tensor dx = at::empty_like(x), dw = at::zeros({parts, d}, x.options());
    const float *px = x.const_data_ptr<float>(), *pw = weight.const_data_ptr<float>(), *pg = dy.const_data_ptr<float>();
    auto *pdx = dx.data_ptr<float>(), *pdw = dw.data_ptr<float>();
    at::parallel_for(0, parts, 1, [&](int64_t a, int64_t b) {
      for (int64_t part = a; part < b; ++part) {
        for (int64_t i = part * per; i < std::min(rows, (part + 1) * per); ++i)
          cpu::kernels().rms_norm_grad(px + i * d, pw, pg + i * d, eps, d, pdx + i * d, pdw + part * d);
      }
    });
    return {dx, dw.sum(0), {}};
  }
};

struct Swiglu : torch::autograd::Function<Swiglu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& in) {
    const at::Tensor x = in.contiguous();
    std::vector<int64_t> shape = x.sizes().vec();
    const int64_t f = shape.back() / 2, rows = x.numel() / (2 * f);
    shape.back() = f;
    at::Tensor y = at::empty(shape, x.options());
    const float* from = x.const_data_ptr<float>();
    auto* to = y.data_ptr<float>();
    at::parallel_for(0, rows, kGrain, [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) cpu::kernels().swiglu(from + i * 2 * f, from + i * 2 * f + f, f, to + i * f);
    });
    ctx->save_for_backward({x});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor x = ctx->get_saved_variables()[0], dy = grads[0].contiguous();
    at::Tensor dx = at::empty_like(x);
    const int64_t f = x.size(-1) / 2, rows = x.numel() / (2 * f);
    const float *from = x.const_data_ptr<float>(), *g = dy.const_data_ptr<float>();
    auto* to = dx.data_ptr<float>();
    at::parallel_for(0, rows, kGrain, [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i)
        cpu::kernels().swiglu_grad(from + i * 2 * f, from + i * 2 * f + f, g + i * f, f, to + i * 2 * f,
                                   to + i * 2 * f + f);
    });
    return {dx};
  }
};

// qkv [B, T, (H + 2 K) h] -> q, k, v [B, H, T, h], turned, and keys and values repeated for the heads that share them.
struct SplitHeads : torch::autograd::Function<SplitHeads> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& in, const at::Tensor& cos, const at::Tensor& sin,
                               int64_t heads, int64_t kv_heads) {
    const at::Tensor x = in.contiguous();
    const int64_t batch = x.size(0), positions = x.size(1), h = x.size(2) / (heads + 2 * kv_heads),
                  group = heads / kv_heads;
    variable_list out;
    for (int i = 0; i < 3; ++i) out.push_back(at::empty({batch, heads, positions, h}, x.options()));
    const float *from = x.const_data_ptr<float>(), *c = cos.const_data_ptr<float>(), *s = sin.const_data_ptr<float>();
    float* to[3] = {out[0].data_ptr<float>(), out[1].data_ptr<float>(), out[2].data_ptr<float>()};
    at::parallel_for(0, batch * positions, kGrain, [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) {
        const int64_t t = i % positions, base = i / positions * heads;
        const float* row = from + i * (heads + 2 * kv_heads) * h;
        const auto place = [&](float* tensor, int64_t head) { return tensor + ((base + head) * positions + t) * h; };
        for (int64_t j = 0; j < heads; ++j) {
          const float *q = row + j * h, *k = row + (heads + j / group) * h,
                      *v = row + (heads + kv_heads + j / group) * h;
          cpu::kernels().rope(q, c + t * (h / 2), s + t * (h / 2), 1.0F, h, place(to[0], j));
          cpu::kernels().rope(k, c + t * (h / 2), s + t * (h / 2), 1.0F, h, place(to[1], j));
          std::copy(v, v + h, place(to[2], j));
        }
      }
    });
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["heads"] = heads;
    ctx->saved_data["kv_heads"] = kv_heads;
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const int64_t heads = ctx->saved_data["heads"].toInt(), kv_heads = ctx->saved_data["kv_heads"].toInt(),
                  group = heads / kv_heads;
    const at::Tensor dq = grads[0].contiguous(), dk = grads[1].contiguous(), dv = grads[2].contiguous();
    const int64_t batch = dq.size(0), positions = dq.size(2), h = dq.size(3), width = (heads + 2 * kv_heads) * h;
    at::Tensor dx = at::empty({batch, positions, width}, dq.options());
    const float *c = saved[0].const_data_ptr<float>(), *s = saved[1].const_data_ptr<float>();
    const float* from[3] = {dq.const_data_ptr<float>(), dk.const_data_ptr<float>(), dv.const_data_ptr<float>()};
    auto* to = dx.data_ptr<float>();
    at::parallel_for(0, batch * positions, kGrain, [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) {
        const int64_t t = i % positions, base = i / positions * heads;
        const auto place = [&](const float* tensor, int64_t head) {
          return tensor + ((base + head) * positions + t) * h;
        };
        float* row = to + i * width;
        for (int64_t j = 0; j < heads; ++j)
          cpu::kernels().rope(place(from[0], j), c + t * (h / 2), s + t * (h / 2), -1.0F, h, row + j * h);
        for (int64_t j = 0; j < kv_heads; ++j) {
          float *k = row + (heads + j) * h, *v = k + kv_heads * h;
          std::fill(k, k + h, 0.0F);
          std::fill(v, v + h, 0.0F);
          for (int64_t g = 0; g < group; ++g) {
            const float *gk = place(from[1], j * group + g), *gv = place(from[2], j * group + g);
            for (int64_t d = 0; d < h; ++d) {
              k[d] += gk[d];
              v[d] += gv[d];
            }
          }
          cpu::kernels().rope(k, c + t * (h / 2), s + t * (h / 2), -1.0F, h, k);
        }
      }
    });
    return {dx, {}, {}, {}, {}};
  }
};

}  // namespace

namespace plain {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(at::mean(wide * wide, {-1}, /*keepdim=*/true) + eps);
  return (wide * scale * weight.to(at::kFloat)).to(x.scalar_type());
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor rotated_attention(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin, int64_t heads,
                             int64_t kv_heads) {
  const int64_t h = qkv.size(2) / (heads + 2 * kv_heads);
  const at::Tensor qk =
      rotate(qkv.narrow(-1, 0, (heads + kv_heads) * h).view({qkv.size(0), qkv.size(1), heads + kv_heads, h}), cos, sin);
  const at::Tensor v =
      qkv.narrow(-1, (heads + kv_heads) * h, kv_heads * h).view({qkv.size(0), qkv.size(1), kv_heads, h});
  return causal_attention(qk.narrow(2, 0, heads), qk.narrow(2, heads, kv_heads), v);
}

}  // namespace plain

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (fused(x)) return RmsNorm::apply(x, weight, eps);
  if (x.is_cuda()) return at::rms_norm(x, {x.size(-1)}, weight.to(x.scalar_type()), eps);
  return plain::rms_norm(x, weight, eps);
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  return fused(gate_up) ? Swiglu::apply(gate_up) : plain::swiglu(gate_up);
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  const at::Tensor c = cos.unsqueeze(1).to(x.scalar_type()), s = sin.unsqueeze(1).to(x.scalar_type());
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
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

at::Tensor rotated_attention(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin, int64_t heads,
                             int64_t kv_heads) {
  if (!fused(qkv)) return plain::rotated_attention(qkv, cos, sin, heads, kv_heads);
  const variable_list parts = SplitHeads::apply(qkv, cos, sin, heads, kv_heads);
  const at::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
  return mixed.transpose(1, 2).reshape({qkv.size(0), qkv.size(1), heads * parts[0].size(3)});
}

at::Tensor add_linear(const at::Tensor& x, const at::Tensor& a, const at::Tensor& weight) {
  return at::addmm(x.view({-1, x.size(-1)}), a.view({-1, a.size(-1)}), weight.t()).view(x.sizes());
}

}  // namespace kz::lm
