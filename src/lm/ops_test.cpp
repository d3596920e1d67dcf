// The fused operations of the CPU against the same made of torch's operations, values and gradients.
#include "lm/ops.h"

#include <gtest/gtest.h>

#include "lm/rope.h"

namespace kz::lm {
namespace {

at::Tensor leaf(at::IntArrayRef shape) { return at::randn(shape).requires_grad_(true); }

// Largest absolute difference between the gradients that the two functions send to `inputs`, for the same random
// weights.
template <typename F, typename G>
double gradient_gap(std::vector<at::Tensor> inputs, const F& fused, const G& plain) {
  const at::Tensor weight = at::randn_like(fused());
  double gap = (fused() - plain()).abs().max().template item<double>();
  std::vector<at::Tensor> first;
  for (int side = 0; side < 2; ++side) {
    ((side == 0 ? fused() : plain()) * weight).sum().backward();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor grad = inputs[i].grad().clone();
      inputs[i].mutable_grad().reset();
      if (side == 0) {
        first.push_back(grad);
      } else {
        gap = std::max(gap, (grad - first[i]).abs().max().template item<double>());
      }
    }
  }
  return gap;
}

TEST(Ops, RmsNorm) {
  at::manual_seed(1);
  for (const int64_t rows : {1, 7, 600}) {
    const at::Tensor x = leaf({rows, 3, 70}), w = leaf({70});
    EXPECT_LT(
        gradient_gap({x, w}, [&] { return rms_norm(x, w, 1e-6); }, [&] { return plain::rms_norm(x, w, 1e-6); }), 3e-4);
  }
}

TEST(Ops, Swiglu) {
  at::manual_seed(2);
  const at::Tensor x = leaf({5, 9, 2 * 43});
  EXPECT_LT(gradient_gap({x}, [&] { return swiglu(x); }, [&] { return plain::swiglu(x); }), 1e-5);
  const at::Tensor wide = leaf({5, 9, 128});  // a gradient that is not contiguous
  const auto mixed = [&](auto f) { return f(wide.transpose(0, 1)).transpose(0, 1); };
  EXPECT_LT(gradient_gap(
                {wide}, [&] { return mixed([](const at::Tensor& t) { return swiglu(t); }); },
                [&] { return mixed([](const at::Tensor& t) { return plain::swiglu(t); }); }),
            1e-5);
}

TEST(Ops, RotatedAttention) {
  at::manual_seed(3);
  RopeTable table(40, 12, 10000.0);
  const at::Tensor cos = at::from_blob(table.cos.data(), {40, 6}).narrow(0, 0, 33),
                   sin = at::from_blob(table.sin.data(), {40, 6}).narrow(0, 0, 33);
  for (const int64_t kv : {1, 2, 6}) {
    const at::Tensor x = leaf({3, 33, (6 + 2 * kv) * 12});
    EXPECT_LT(gradient_gap(
                  {x}, [&] { return rotated_attention(x, cos, sin, 6, kv); },
                  [&] { return plain::rotated_attention(x, cos, sin, 6, kv); }),
              1e-4);
  }
}

TEST(Ops, AddLinear) {
  at::manual_seed(4);
  const at::Tensor x = leaf({2, 5, 8}), a = leaf({2, 5, 6}), w = leaf({8, 6});
  EXPECT_LT(gradient_gap({x, a, w}, [&] { return add_linear(x, a, w); }, [&] { return x + at::linear(a, w); }), 1e-5);
}

}  // namespace
}  // namespace kz::lm
