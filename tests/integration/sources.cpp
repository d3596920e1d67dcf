#include "integration/sources.h"

namespace kz::keck {

const std::string kReluModule = R"(
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(16, 64)]


def get_init_inputs():
    return []
)";

std::string relu_kernel(const std::string& positive) {
  return R"(
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r'''
#include <torch/extension.h>

torch::Tensor relu2(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const float* in = x.data_ptr<float>();
  float* out = y.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float v = in[i];
    out[i] = v > 0 ? )" +
         positive + R"( : 0;
  }
  return y;
}
'''
extension = load_inline(name="relu2", cpp_sources=source, functions=["relu2"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.relu2(x)
)";
}

}  // namespace kz::keck
