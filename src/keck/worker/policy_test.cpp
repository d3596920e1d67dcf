// Right is pass and accepted: what computes by torch is not accepted, whatever it hides behind; what merely allocates,
// views and copies is (keck.md, part 7; threats.md E22-E27).
#include <gmock/gmock.h>

#include "keck/worker/evaluator_fixture.h"

namespace kz::keck {
namespace {

const std::string kRelu = module_of("x = torch.relu(x)");
const char* const kTorchCompute = "pass refused policy torch_compute";

// The elementwise kernel, with another forward around it.
std::string around_kernel(const std::string& forward) {
  std::string text = cpp_elementwise("return v > 0 ? v : 0;");
  return text.substr(0, text.find("class ModelNew")) +
         "import threading\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n" + forward;
}

struct Case {
  const char *name, *forward, *expected;
};

class PolicyTest : public EvaluatorTest {};

TEST_F(PolicyTest, Table) {
  const std::vector<Case> cases = {
      {"the kernel", "        return kernel.forward(x)\n", "pass accepted"},
      {"views and copies around it",
       "        y = kernel.forward(x.t().contiguous()).t()\n        return y.clone().view(16, 64)\n", "pass accepted"},
      {"allocations beside it",
       "        y = torch.empty_like(x)\n        y.copy_(kernel.forward(x.double().float()))\n        return y\n",
       "pass accepted"},
      {"a decoy", "        kernel.forward(x)\n        return torch.relu(x)\n", kTorchCompute},
      {"a ghost branch", "        return kernel.forward(x) if x.numel() == 7 else x.clamp(min=0)\n", kTorchCompute},
      {"a fallback",
       "        try:\n            return torch.relu(x)\n        except BaseException:\n            return "
       "kernel.forward(x)\n",
       kTorchCompute},
      {"in-place", "        y = x.clone()\n        y.relu_()\n        return y\n", kTorchCompute},
      {"an operator", "        return kernel.forward(x) + 0\n", kTorchCompute},
      {"numpy", "        return torch.from_numpy(x.numpy().clip(min=0))\n", kTorchCompute},
      {"a thread",
       "        out = []\n        t = threading.Thread(target=lambda: out.append(torch.relu(x)))\n        t.start()\n  "
       "      t.join()\n"
       "        return out[0]\n",
       kTorchCompute},
      {"the mode switched off",
       "        from torch.utils._python_dispatch import _disable_current_modes\n        with "
       "_disable_current_modes():\n"
       "            return torch.relu(x)\n",
       kTorchCompute},
      {"out=", "        y = torch.empty_like(x)\n        torch.clamp(x, min=0, out=y)\n        return y\n",
       kTorchCompute},
  };
  for (const Case& c : cases) {
    const Verdict verdict = judge(kRelu, around_kernel(c.forward));
    EXPECT_EQ(summary(verdict), c.expected) << c.name << ": " << verdict.message << verdict.log_tail;
    EXPECT_EQ(verdict.right(), std::string(c.expected) == "pass accepted");
  }
}

TEST_F(PolicyTest, CppOperatorsCount) {
  std::string at_relu = cpp_elementwise("return v;");
  at_relu.replace(at_relu.find("return y;"), 9, "return at::relu(x);");
  EXPECT_EQ(summary(judge(kRelu, at_relu)), kTorchCompute);
  std::string method = cpp_elementwise("return v;");
  method.replace(method.find("return y;"), 9, "return x.clamp_min(0);");
  EXPECT_EQ(summary(judge(kRelu, method)), kTorchCompute);
}

TEST_F(PolicyTest, IsConfiguration) {
  EvaluationRequest request;
  request.module = kRelu;
  request.candidate =
      "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n";
  request.backend = "cpp";
  request.timing = false;
  request.policy.require_custom_kernel = false;
  EXPECT_EQ(summary(evaluator().evaluate(request, std::atomic<bool>{false})), "pass accepted");
}

TEST_F(PolicyTest, ParametersReachTheKernel) {
  const std::string module = module_of("x = self.m1(x)", "torch.randn(16, 64)", "self.m1 = nn.Linear(64, 8)");
  const std::string candidate = R"(import torch
from torch.utils.cpp_extension import load_inline
kernel = load_inline(name="linear", functions=["forward"], cpp_sources=r"""
#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int n = x.size(0), k = x.size(1), m = w.size(0);
  auto y = torch::empty({n, m});
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) {
      float s = b.data_ptr<float>()[j];
      for (int l = 0; l < k; l++) s += x.data_ptr<float>()[i * k + l] * w.data_ptr<float>()[j * k + l];
      y.data_ptr<float>()[i * m + j] = s;
    }
  return y;
}
""")
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.m1 = torch.nn.Linear(64, 8)
    def forward(self, x):
        return kernel.forward(x, self.m1.weight, self.m1.bias)
)";
  const Verdict verdict = judge(module, candidate);
  EXPECT_EQ(summary(verdict), "pass accepted") << verdict.message << verdict.build.log;
}

}  // namespace
}  // namespace kz::keck
