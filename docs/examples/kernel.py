# Written by the Coder (models/nano), judged right by Keck: docs/architecture.md, part 7, rollout 54.
import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor forward(torch::Tensor x, torch::Tensor a) {
  const int N = x.size(0), W = x.size(1);
  TORCH_CHECK(x.is_contiguous() && W <= 1024);
  auto y = torch::empty({N, W});
  const float* xp = x.data_ptr<float>();
  const float* ap = a.data_ptr<float>();
  float* yp = y.data_ptr<float>();
  float v[1024], u[1024];
  for (int i = 0; i < N; i++) {
    int n = W;
    for (int j = 0; j < n; j++) v[j] = xp[i * n + j];
    {
      float m = v[0], s = 0.0f;
      for (int j = 0; j < n; j++) m = v[j] > m ? v[j] : m;
      for (int j = 0; j < n; j++) s += expf(v[j] - m);
      for (int j = 0; j < n; j++) v[j] = expf(v[j] - m) / s;
    }
    for (int j = 0; j < n; j++) v[j] = v[j] + ap[j];
    for (int j = 0; j < n; j++) yp[i * n + j] = v[j];
  }
  return y;
}
"""
kernel = load_inline(name="kernel", cpp_sources=source, functions=["forward"], extra_cflags=["-O3"])

class ModelNew(torch.nn.Module):
    def forward(self, x, a):
        return kernel.forward(x, a)
