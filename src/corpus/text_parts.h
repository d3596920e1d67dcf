// Boilerplate of modules and candidates: the writers put texts together from it and the tokenizer holds each piece as
// one token.
#pragma once

#include <string>

namespace kz::corpus {

// Modules.
inline const std::string kModuleHead =
    "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\nclass Model(nn.Module):\n\n"
    "    def __init__(self):\n        super().__init__()\n";
inline const std::string kModuleForward = "\n    def forward(self, ";
inline const std::string kModuleReturn = "        return x\n\ndef get_inputs():\n    return [";
inline const std::string kModuleTail = "]\n\ndef get_init_inputs():\n    return []\n";

// `cpp` candidates. kMaxWidth bounds the row buffers.
inline const std::string kCppHead =
    "import torch\nfrom torch.utils.cpp_extension import load_inline\n\nsource = r\"\"\"\n"
    "#include <torch/extension.h>\n#include <cmath>\n\ntorch::Tensor forward(torch::Tensor x";
inline const std::string kCppInput = ", torch::Tensor ";
inline const std::string kCppSizes =
    ") {\n  const int N = x.size(0), W = x.size(1);\n  TORCH_CHECK(x.is_contiguous() && W <= 1024);\n";
inline const std::string kCppWeightRows = ".size(0);\n", kCppWeightColumns = ".size(1);\n";
inline const std::string kCppWidth = "  const int D = ";
inline const std::string kCppOutput = "  auto y = torch::empty({N, ";
inline const std::string kCppPointers = "});\n  const float* xp = x.data_ptr<float>();\n";
inline const std::string kCppPointer = "  const float* ";
inline const std::string kCppPointerEnd = ".data_ptr<float>();\n";
inline const std::string kCppRows =
    "  float* yp = y.data_ptr<float>();\n  float v[1024], u[1024];\n  for (int i = 0; i < N; i++) {\n"
    "    int n = W;\n    for (int j = 0; j < n; j++) v[j] = xp[i * n + j];\n";
inline const std::string kCppTail =
    "    for (int j = 0; j < n; j++) yp[i * n + j] = v[j];\n  }\n  return y;\n}\n\"\"\"\n"
    "kernel = load_inline(name=\"kernel\", cpp_sources=source, functions=[\"forward\"], extra_cflags=[\"-O3\"";
// Vectorised exp and its kin. Without -mno-recip 1 / inf, and so a sigmoid far from zero, would be NaN.
inline const std::string kCppFastMath = ", \"-ffast-math\", \"-mno-recip\"";
inline const std::string kCppModel = "])\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x";
inline const std::string kCppCall = "):\n        return kernel.forward(x";

// `triton` candidates.
inline const std::string kTritonHead =
    "import torch\nimport triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(x_ptr, ";
inline const std::string kTritonPointer = "_ptr, ";
inline const std::string kTritonSizes = "y_ptr, N, W, ";
inline const std::string kTritonWidth = "D, ";
inline const std::string kTritonLoad =
    "BLOCK: tl.constexpr):\n    rows = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]\n"
    "    cols = tl.arange(0, BLOCK)[None, :]\n    mask = (rows < N) & (cols < W)\n"
    "    v = tl.load(x_ptr + rows * W + cols, mask=mask, other=0.0)\n";
inline const std::string kTritonTail =
    "    tl.store(y_ptr + rows * W + cols, v, mask=mask)\n\nclass ModelNew(torch.nn.Module):\n"
    "    def forward(self, x";
inline const std::string kTritonShape = "):\n        N, W = x.shape\n";
inline const std::string kTritonWeightRows = ".shape[0]\n", kTritonWeightColumns = ".shape[1]\n";
inline const std::string kTritonWeightWidth = "        D = ";
inline const std::string kTritonOutput = "        y = torch.empty((N, ";
inline const std::string kTritonGrid = "), device=x.device)\n        kernel[(triton.cdiv(N, 16),)](x, ";
inline const std::string kTritonCall = "y, N, W, ";
inline const std::string kTritonBlock = "BLOCK=triton.next_power_of_2(";
inline const std::string kTritonEnd = "))\n        return y\n";

}  // namespace kz::corpus
