#include "keck/worker/evaluator_fixture.h"

#include <cstdlib>

namespace kz::keck {

std::unique_ptr<TempDir> EvaluatorTest::state_;
std::unique_ptr<Evaluator> EvaluatorTest::evaluator_;

void EvaluatorTest::SetUpTestSuite() {
  if (evaluator_) return;
  auto layout = find_layout();
  ASSERT_TRUE(layout) << layout.error().message;
  auto state = TempDir::make("/tmp", "kz-evaluator-test");
  ASSERT_TRUE(state) << state.error().message;
  state_ = std::make_unique<TempDir>(std::move(*state));
  EvaluatorOptions options;
  options.layout = *layout;
  options.state = state_->path();
  options.memory_mb = 1024;
  auto evaluator = Evaluator::start(options);
  ASSERT_TRUE(evaluator) << evaluator.error().message;
  evaluator_ = std::move(*evaluator);
}

void EvaluatorTest::TearDownTestSuite() {
  evaluator_.reset();
  state_.reset();
}

Verdict EvaluatorTest::judge(const std::string& module, const std::string& candidate, const std::string& backend,
                             bool timing, double deadline_s) {
  EvaluationRequest request;
  request.module = module;
  request.candidate = candidate;
  request.backend = backend;
  request.timing = timing;
  request.deadline_s = deadline_s;
  return evaluator_->evaluate(request, std::atomic<bool>{false});
}

ModuleReport EvaluatorTest::gate(const std::string& module, const std::vector<std::string>& apis) {
  ModuleRequest request;
  request.module = module;
  request.apis = apis;
  return evaluator_->check_module(request, std::atomic<bool>{false});
}

std::string summary(const Verdict& verdict) {
  std::string out(to_string(verdict.outcome));
  if (verdict.outcome == Outcome::kPass) out += verdict.accepted ? " accepted" : " refused";
  if (verdict.stage != Stage::kNone) out += " " + std::string(to_string(verdict.stage));
  return verdict.reason.empty() ? out : out + " " + verdict.reason;
}

std::string module_of(const std::string& body, const std::string& inputs, const std::string& init,
                      const std::string& parameters) {
  const auto indented = [](const std::string& lines) {
    std::string out;
    for (size_t at = 0; at < lines.size();) {
      const size_t end = std::min(lines.find('\n', at), lines.size());
      out += "        " + lines.substr(at, end - at) + "\n";
      at = end + 1;
    }
    return out;
  };
  return "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\nclass Model(nn.Module):\n\n"
         "    def __init__(self):\n        super().__init__()\n" +
         indented(init) + "\n    def forward(self, " + parameters + "):\n" + indented(body) +
         "        return x\n\ndef get_inputs():\n    return [" + inputs +
         "]\n\ndef get_init_inputs():\n    return []\n";
}

std::string cpp_elementwise(const std::string& code) {
  return R"(import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cmath>
static float f(float v) { )" +
         code + R"( }
torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const float* xp = x.data_ptr<float>();
  float* yp = y.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); i++) yp[i] = f(xp[i]);
  return y;
}
"""
kernel = load_inline(name="kernel", cpp_sources=source, functions=["forward"], extra_cflags=["-O3"])

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return kernel.forward(x)
)";
}

std::string triton_elementwise(const std::string& expression) {
  return R"(import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, )" +
         expression + R"(, mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
        return y
)";
}

}  // namespace kz::keck
