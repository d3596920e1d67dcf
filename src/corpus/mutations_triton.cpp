#include "corpus/mutations.h"
#include "corpus/text_parts.h"

namespace kz::corpus {
namespace {

const std::string kStore = "    tl.store(y_ptr + rows * W + cols, v, mask=mask)\n";
const std::string kUnset = "wrong_values|non_finite";  // by what lay in the memory
const std::string kSum = ", axis=1, keep_dims=True)";

std::vector<Mutation> values() {
  return {
      {"wrong_constant", "mul_scalar", {{"v * {A}", "v * {X}"}}},
      {"wrong_constant", "leaky_relu", {{"{A} * v", "{X} * v"}}},
      {"wrong_constant", "add_scalar", {{"v + {A}", "v + {X}"}}},
      {"wrong_bound", "clamp", {{", {B})", ", {X})"}}},
      {"swapped_operands", "sub", {{"v = v - tl.load(", "v = -v + tl.load("}}},
      {"wrong_operator", "add", {{"v = v + tl.load(", "v = v * tl.load("}}},
      {"wrong_row", "maximum", {{"tl.load(a_ptr + rows * W + cols", "tl.load(a_ptr + cols"}}},
      {"dropped_operator", "square", {{"    v = v * v\n", ""}}},
      {"wrong_formula", "gelu", {{"0.70710678", "0.5"}}},
      {"approximation", "gelu", {{"0.5 * v * (1.0 + tl.erf(v * 0.70710678))", "v * tl.sigmoid(1.702 * v)"}}},
      {"low_precision", "sigmoid", {{"cols, v, mask=mask)", "cols, v.to(tl.float16), mask=mask)"}}},
      {"integer_truncation", "tanh", {{"cols, v, mask=mask)", "cols, (v * 8.0).to(tl.int32) / 8.0, mask=mask)"}}},
      {"unmasked_sum", "sum", {{"tl.where(mask, v, 0.0)", "v + 1.0"}}},
      {"no_division", "mean", {{kSum + " / W", kSum}}},
      {"biased_variance", "var", {{"/ (W - 1)", "/ W"}}},
      {"no_root", "std", {{"tl.sqrt(tl.sum(v * v" + kSum + " / (W - 1))", "tl.sum(v * v" + kSum + " / (W - 1)"}}},
      {"no_root", "norm", {{"tl.sqrt(tl.sum(v * v" + kSum + ")", "tl.sum(v * v" + kSum}}},
      {"start_at_zero",
       "amax",
       {{"-float('inf')", "0.0"}},
       "fail",
       "compare",
       "wrong_values",
       false,
       true,
       {{"torch.randn(", "-3.0 - torch.rand("}}},
      {"not_normalised", "softmax", {{"    v = v / tl.sum(v" + kSum + "\n", ""}}},
      {"wrong_base", "softmax", {{"tl.exp(v - ", "tl.exp2(v - "}}},
      {"no_max_subtraction",
       "log_softmax",
       {{"    v = v - tl.max(v" + kSum + "\n", ""}},
       "fail",
       "compare",
       "non_finite",
       false,
       false,
       {{"torch.randn(", "100.0 + torch.randn("}}},
      {"wrong_axis", "softmax", {{"tl.sum(v, axis=1", "tl.sum(v, axis=0"}}},
      {"no_logarithm", "log_softmax", {{"tl.log(tl.sum(tl.exp(v)" + kSum + ")", "tl.sum(tl.exp(v)" + kSum}}},
      {"no_mean", "layer_norm", {{"tl.where(mask, v - m, 0.0)", "tl.where(mask, v, 0.0)"}}},
      {"wrong_eps", "layer_norm", {{"1e-5", "1e-1"}}, "fail", "compare", "wrong_values", false},
      {"no_eps",
       "layer_norm",
       {{" + 1e-5", ""}},
       "fail",
       "compare",
       "wrong_values",
       false,
       false,
       {{"torch.randn(", "0.001 * torch.randn("}}},
      {"sum_for_mean", "rms_norm", {{kSum + " / W", kSum}}},
      {"swapped_halves",
       "glu",
       {{"v * tl.sigmoid(tl.gather(v, tl.where(mask, W + cols, 0), 1))",
         "tl.sigmoid(v) * tl.gather(v, tl.where(mask, W + cols, 0), 1)"}}},
      {"off_by_one", "flip", {{"W - 1 - cols", "(W - cols) % W"}}},
      {"wrong_direction", "roll", {{"(cols + W - {I}) % W", "(cols + {I}) % W"}}},
      {"exclusive_sum", "cumsum", {{"tl.where(mask, v, 0.0), axis=1)", "tl.where(mask, v, 0.0), axis=1) - v"}}},
      {"transposed_weight", "linear", {{"cols * W + k", "k * D + cols"}}},
      {"off_by_one_tail", "relu", {{"(cols < W)\n", "(cols < W - 1)\n"}}, "fail", "compare", kUnset},
      {"lost_rows", "exp", {{"(triton.cdiv(N, 16),)", "(triton.cdiv(N, 16) - 1,)"}}, "fail", "compare", kUnset},
      {"uninitialised_output", "silu", {{kStore, ""}}, "fail", "compare", kUnset},
      {"zeros", "softplus", {{"cols, v, mask=mask)", "cols, 0.0 * cols, mask=mask)"}}},
      {"input_copied", "abs", {{"return y", "return x.clone()"}}},
      {"input_destroyed",
       "relu",
       {{kStore, kStore + "    tl.store(x_ptr + rows * W + cols, 0.0 * cols, mask=mask)\n"}},
       "fail",
       "compare",
       "input_mutated"},
  };
}

std::vector<Mutation> shapes_and_launches() {
  return {
      {"no_kept_dimension", "sum", {{"(N, 1)", "(N,)"}}, "fail", "compare", "shape"},
      {"wrong_shape", "amax", {{"(N, 1)", "(N, W)"}}, "fail", "compare", "shape"},
      {"transposed_output", "relu6", {{"return y", "return y.t()"}}, "fail", "compare", "shape|wrong_values"},
      {"wrong_dtype", "neg", {{"device=x.device", "device=x.device, dtype=torch.float64"}}, "fail", "compare", "dtype"},
      {"unknown_function", "relu", {{"tl.maximum(v, 0.0)", "tl.relu(v)"}}, "fail", "run", "exception"},
      {"undeclared", "cos", {{"tl.cos(v)", "tl.cos(w)"}}, "fail", "run", "exception"},
      {"no_constexpr", "sin", {{"BLOCK=triton.next_power_of_2(W)", "BLOCK=W"}}, "fail", "run", "exception", true, true},
      {"raises",
       "hardswish",
       {{"        N, W = x.shape\n", "        N, W, C = x.shape\n"}},
       "fail",
       "run",
       "exception"},
      {"unlaunched_kernel",
       "relu",
       {{"return y", "return torch.relu(x)"},
        {"kernel[(triton.cdiv(N, 16),)](x, y, N, W, BLOCK=triton.next_power_of_2(W))", "pass"}},
       "pass",
       "policy",
       "torch_compute",
       false},
  };
}

}  // namespace

std::vector<Mutation> triton_mutations() {
  std::vector<Mutation> list = values();
  for (auto part : {shapes_and_launches(), wrapper_mutations("y")})
    for (Mutation& mutation : part) list.push_back(std::move(mutation));
  return list;
}

}  // namespace kz::corpus
