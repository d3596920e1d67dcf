#include "corpus/family_parts.h"
#include "corpus/mutations.h"
#include "corpus/text_parts.h"

namespace kz::corpus {
namespace {

const std::string kStore = "    " + kLoop + "yp[i * n + j] = v[j];\n";
const std::string kUnset = "wrong_values|non_finite";  // by what lay in the memory

std::vector<Mutation> values() {
  return {
      {"wrong_constant", "mul_scalar", {{"* {A}f", "* {X}f"}}},
      {"wrong_constant", "leaky_relu", {{"{A}f * v", "{X}f * v"}}},
      {"wrong_constant", "add_scalar", {{"+ {A}f", "+ {X}f"}}},
      {"wrong_bound", "clamp", {{", {B}f)", ", {X}f)"}}},
      {"swapped_operands", "sub", {{"v[j] - ap[i * n + j]", "ap[i * n + j] - v[j]"}}},
      {"wrong_operator", "add", {{"v[j] + ap", "v[j] * ap"}}},
      {"wrong_broadcast", "mul_vector", {{"ap[j]", "ap[i]"}}},
      {"dropped_operator", "square", {{"    " + kLoop + "v[j] = v[j] * v[j];\n", ""}}},
      {"wrong_formula", "gelu", {{"0.70710678f", "0.5f"}}},
      {"approximation",
       "gelu",
       {{"0.5f * v[j] * (1.0f + erff(v[j] * 0.70710678f))",
         "v[j] / (1.0f + expf(-1.5957691f * (v[j] + 0.044715f * v[j] * v[j] * v[j])))"}}},
      {"low_precision", "sigmoid", {{"yp[i * n + j] = v[j]", "yp[i * n + j] = roundf(v[j] * 1024.0f) / 1024.0f"}}},
      {"integer_truncation", "tanh", {{"yp[i * n + j] = v[j]", "yp[i * n + j] = (int)(v[j] * 8.0f) / 8.0f"}}},
      {"integer_sum", "sum", {{"float s = 0.0f", "int s = 0"}}},
      {"no_division", "mean", {{"      s = s / n;\n", ""}}},
      {"biased_variance", "var", {{"(n - 1)", "n"}}},
      {"no_root", "std", {{"sqrtf(s / (n - 1))", "s / (n - 1)"}}},
      {"no_root", "norm", {{"      s = sqrtf(s);\n", ""}}},
      {"start_at_zero",
       "amax",
       {{"float s = v[0]", "float s = 0.0f"}},
       "fail",
       "compare",
       "wrong_values",
       false,
       false,
       {{"torch.randn(", "-3.0 - torch.rand("}}},
      {"not_normalised", "softmax", {{"v[j] = v[j] / s", "v[j] = v[j]"}}},
      {"wrong_base", "softmax", {{"expf(v[j] - m)", "exp2f(v[j] - m)"}}},
      {"no_max_subtraction",
       "softmax",
       {{"expf(v[j] - m)", "expf(v[j])"}},
       "fail",
       "compare",
       "non_finite",
       false,
       false,
       {{"torch.randn(", "60.0 * torch.randn("}}},
      {"wrong_axis",
       "softmax",
       {{"i < N", "i < W"},
        {"int n = W", "int n = N"},
        {"xp[i * n + j]", "xp[j * W + i]"},
        {"yp[i * n + j]", "yp[j * W + i]"}},
       "fail",
       "compare",
       "wrong_values",
       false},
      {"no_logarithm", "log_softmax", {{"m + logf(s)", "m + s"}}},
      {"no_mean", "layer_norm", {{"v[j] = (v[j] - m) * s", "v[j] = v[j] * s"}}},
      {"wrong_eps", "layer_norm", {{"1e-5f", "1e-1f"}}, "fail", "compare", "wrong_values", false},
      {"no_eps",
       "layer_norm",
       {{" + 1e-5f", ""}},
       "fail",
       "compare",
       "wrong_values",
       false,
       false,
       {{"torch.randn(", "0.001 * torch.randn("}}},
      {"sum_for_mean", "rms_norm", {{"sqrtf(s / n", "sqrtf(s"}}},
      {"swapped_halves", "glu", {{"v[j] / (1.0f + expf(-v[n + j]))", "v[n + j] / (1.0f + expf(-v[j]))"}}},
      {"off_by_one", "flip", {{"v[n - 1 - j]", "v[(n - j) % n]"}}},
      {"wrong_direction", "roll", {{"u[(j + {I}) % n] = v[j]", "u[j] = v[(j + {I}) % n]"}}},
      {"exclusive_sum", "cumsum", {{"v[j] = s += v[j];", "{ float t = v[j]; v[j] = s; s += t; }"}}},
      {"transposed_weight", "linear", {{"ap[o * n + j]", "ap[j * D + o]"}}},
      {"no_accumulation", "linear", {{"s += v[j] * ap", "s = v[j] * ap"}}},
      {"off_by_one_tail",
       "relu",
       {{kStore, "    for (int j = 0; j < n - 1; j++) yp[i * n + j] = v[j];\n"}},
       "fail",
       "compare",
       kUnset},
      {"lost_row", "exp", {{"i < N; i++", "i < N - 1; i++"}}, "fail", "compare", kUnset},
      {"uninitialised_output", "silu", {{kStore, ""}}, "fail", "compare", kUnset},
      {"zeros", "softplus", {{"yp[i * n + j] = v[j]", "yp[i * n + j] = 0.0f"}}},
      {"input_copied", "abs", {{"yp[i * n + j] = v[j]", "yp[i * n + j] = xp[i * n + j]"}}},
      {"input_destroyed",
       "relu",
       {{kStore, kStore + "    " + kLoop + "const_cast<float*>(xp)[i * n + j] = 0.0f;\n"}},
       "fail",
       "compare",
       "input_mutated"},
  };
}

std::vector<Mutation> shapes_and_builds() {
  return {
      {"no_kept_dimension", "sum", {{"{N, 1}", "{N}"}}, "fail", "compare", "shape"},
      {"wrong_shape", "amax", {{"{N, 1}", "{N, W}"}}, "fail", "compare", "shape"},
      {"transposed_output", "relu6", {{"return y;", "return y.t();"}}, "fail", "compare", "shape|wrong_values"},
      {"wrong_dtype", "neg", {{"return y;", "return y.to(torch::kFloat64);"}}, "fail", "compare", "dtype"},
      {"undeclared", "relu", {{"fmaxf(v[j], 0.0f)", "fmaxf(w[j], 0.0f)"}}, "fail", "build", "compile_error"},
      {"missing_semicolon", "cos", {{"int n = W;", "int n = W"}}, "fail", "build", "compile_error"},
      {"wrong_type", "sin", {{"float* yp = y.data_ptr", "float yp = y.data_ptr"}}, "fail", "build", "compile_error"},
      {"unknown_function",
       "erf",
       {{"functions=[\"forward\"]", "functions=[\"run\"]"}},
       "fail",
       "build",
       "compile_error"},
      {"check_fails", "hardswish", {{"W <= 1024", "W <= 1"}}, "fail", "run", "exception"},
      {"null_pointer", "mish", {{"float* yp = y.data_ptr<float>();", "float* yp = nullptr;"}}, "fail", "run", "signal"},
      {"torch_in_cpp",
       "relu",
       {{"  const int N = x.size(0)", "  return torch::relu(x);\n  const int N = x.size(0)"}},
       "pass",
       "policy",
       "torch_compute",
       false},
  };
}

}  // namespace

std::vector<Mutation> cpp_mutations() {
  std::vector<Mutation> list = values();
  for (auto part : {shapes_and_builds(), wrapper_mutations("kernel.forward(x)")})
    for (Mutation& mutation : part) list.push_back(std::move(mutation));
  return list;
}

std::vector<Mutation> wrapper_mutations(const std::string& call) {
  const std::string returned = "return " + call;
  return {
      {"no_model_new", "relu", {{"class ModelNew", "class Kernel"}}, "fail", "format", "no_model_new", false},
      {"syntax_error",
       "relu",
       {{"class ModelNew(torch.nn.Module):", "class ModelNew(torch.nn.Module)"}},
       "fail",
       "format",
       "syntax_error",
       false},
      {"import_error",
       "relu",
       {{"import torch\n", "import torch\nimport no_such_package\n"}},
       "fail",
       "load",
       "import_error",
       false},
      {"missing_argument",
       "relu",
       {{"def forward(self, x", "def forward(self, scale, x"}},
       "fail",
       "run",
       "exception",
       false},
      {"returns_nothing", "relu", {{returned, call}}, "fail", "compare", "structure", false},
      {"returns_tuple", "relu", {{returned, "return (" + call + ",)"}}, "fail", "compare", "structure", false},
      {"stale_result",
       "relu",
       {{returned, "if not hasattr(self, 'y'):\n            self.y = " + call + "\n        return self.y"}},
       "fail",
       "compare",
       "wrong_values",
       false},
      {"exits",
       "relu",
       {{returned, "import os\n        os._exit(0)\n        " + returned}},
       "fail",
       "run",
       "exit",
       false},
  };
}

}  // namespace kz::corpus
