// Elementwise operators without parameters.
#include <cmath>
#include <vector>

#include "corpus/family_parts.h"

namespace kz::corpus {
namespace {

constexpr double kCancelled = 1.2e-7;  // what 1 + v - 1 loses

template <auto F>
void each(std::vector<double>& row, const Arguments&) {
  for (double& v : row) v = F(v);
}

double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }
double softplus(double v) { return std::fmax(v, 0) + std::log1p(std::exp(-std::fabs(v))); }

// `cpp` and `triton` are expressions over v[j] and v.
Family unary(std::string name, std::string api, const std::vector<std::string>& calls, const std::string& cpp,
             const std::string& triton, Reference reference) {
  Family family{.name = std::move(name), .api = std::move(api), .kind = Kind::kUnary, .spellings = spell(calls)};
  family.cpp = {{"main", kLoop + "v[j] = " + cpp + ";"}};
  family.triton = {{"main", "v = " + triton}};
  family.reference = reference;
  return family;
}

std::vector<Family> activations() {
  const std::string f = "torch.nn.functional.";
  std::vector<Family> list = {
      unary("relu", "torch.relu", {"torch.relu(x)", "F.relu(x)", "nn.ReLU()", "x.relu()"}, "fmaxf(v[j], 0.0f)",
            "tl.maximum(v, 0.0)", each<[](double v) { return std::fmax(v, 0); }>),
      unary("sigmoid", "torch.sigmoid", {"torch.sigmoid(x)", "nn.Sigmoid()", "x.sigmoid()"},
            "1.0f / (1.0f + expf(-v[j]))", "tl.sigmoid(v)", each<sigmoid>),
      unary("tanh", "torch.tanh", {"torch.tanh(x)", "nn.Tanh()", "x.tanh()"}, "tanhf(v[j])",
            "2.0 * tl.sigmoid(2.0 * v) - 1.0", each<[](double v) { return std::tanh(v); }>),
      unary("silu", f + "silu", {"F.silu(x)", "nn.SiLU()"}, "v[j] / (1.0f + expf(-v[j]))", "v * tl.sigmoid(v)",
            each<[](double v) { return v * sigmoid(v); }>),
      unary("gelu", f + "gelu", {"F.gelu(x)", "nn.GELU()"}, "0.5f * v[j] * (1.0f + erff(v[j] * 0.70710678f))",
            "0.5 * v * (1.0 + tl.erf(v * 0.70710678))",
            each<[](double v) { return 0.5 * v * (1 + std::erf(v * std::sqrt(0.5))); }>),
      unary("gelu_tanh", f + "gelu", {"F.gelu(x, approximate='tanh')", "nn.GELU(approximate='tanh')"},
            "v[j] / (1.0f + expf(-1.5957691f * (v[j] + 0.044715f * v[j] * v[j] * v[j])))",
            "v * tl.sigmoid(1.5957691 * (v + 0.044715 * v * v * v))",
            each<[](double v) { return v * sigmoid(1.5957691216057308 * (v + 0.044715 * v * v * v)); }>),
      unary("softplus", f + "softplus", {"F.softplus(x)", "nn.Softplus()"},
            "fmaxf(v[j], 0.0f) + log1pf(expf(-fabsf(v[j])))", "tl.maximum(v, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(v)))",
            each<softplus>),
      unary("mish", f + "mish", {"F.mish(x)", "nn.Mish()"}, "v[j] * tanhf(log1pf(expf(v[j])))", "",
            each<[](double v) { return v * std::tanh(softplus(v)); }>),
      unary("softsign", f + "softsign", {"F.softsign(x)", "nn.Softsign()"}, "v[j] / (1.0f + fabsf(v[j]))",
            "v / (1.0 + tl.abs(v))", each<[](double v) { return v / (1 + std::fabs(v)); }>),
      unary("hardsigmoid", f + "hardsigmoid", {"F.hardsigmoid(x)", "nn.Hardsigmoid()"},
            "fminf(fmaxf(v[j] / 6.0f + 0.5f, 0.0f), 1.0f)", "tl.minimum(tl.maximum(v / 6.0 + 0.5, 0.0), 1.0)",
            each<[](double v) { return std::fmin(std::fmax(v / 6 + 0.5, 0), 1); }>),
      unary("hardswish", f + "hardswish", {"F.hardswish(x)", "nn.Hardswish()"},
            "v[j] * fminf(fmaxf(v[j] + 3.0f, 0.0f), 6.0f) / 6.0f",
            "v * tl.minimum(tl.maximum(v + 3.0, 0.0), 6.0) / 6.0",
            each<[](double v) { return v * std::fmin(std::fmax(v + 3, 0), 6) / 6; }>),
      unary("relu6", f + "relu6", {"F.relu6(x)", "nn.ReLU6()"}, "fminf(fmaxf(v[j], 0.0f), 6.0f)",
            "tl.minimum(tl.maximum(v, 0.0), 6.0)", each<[](double v) { return std::fmin(std::fmax(v, 0), 6); }>),
      unary("selu", "torch.selu", {"torch.selu(x)", "F.selu(x)", "nn.SELU()"},
            "1.0507010f * (v[j] > 0.0f ? v[j] : 1.6732632f * expm1f(v[j]))",
            "1.0507010 * tl.where(v > 0.0, v, 1.6732632 * (tl.exp(v) - 1.0))",
            each<[](double v) { return 1.0507009873554805 * ((v > 0) ? v : 1.6732632423543772 * std::expm1(v)); }>),
      unary("logsigmoid", f + "logsigmoid", {"F.logsigmoid(x)", "nn.LogSigmoid()"},
            "fminf(v[j], 0.0f) - log1pf(expf(-fabsf(v[j])))", "tl.minimum(v, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(v)))",
            each<[](double v) { return -softplus(-v); }>),
      unary("tanhshrink", f + "tanhshrink", {"F.tanhshrink(x)", "nn.Tanhshrink()"}, "v[j] - tanhf(v[j])",
            "v - (2.0 * tl.sigmoid(2.0 * v) - 1.0)", each<[](double v) { return v - std::tanh(v); }>),
  };
  return list;
}

std::vector<Family> functions() {
  std::vector<Family> list = {
      unary("abs", "torch.abs", {"torch.abs(x)", "x.abs()"}, "fabsf(v[j])", "tl.abs(v)",
            each<[](double v) { return std::fabs(v); }>),
      unary("neg", "torch.neg", {"torch.neg(x)", "x.neg()"}, "-v[j]", "-v", each<[](double v) { return -v; }>),
      unary("square", "torch.square", {"torch.square(x)", "x.square()"}, "v[j] * v[j]", "v * v",
            each<[](double v) { return v * v; }>),
      unary("cube", "torch.pow", {"torch.pow(x, 3)", "x.pow(3)"}, "v[j] * v[j] * v[j]", "v * v * v",
            each<[](double v) { return v * v * v; }>),
      unary("exp", "torch.exp", {"torch.exp(x)", "x.exp()"}, "expf(v[j])", "tl.exp(v)",
            each<[](double v) { return std::exp(v); }>),
      unary("sin", "torch.sin", {"torch.sin(x)", "x.sin()"}, "sinf(v[j])", "tl.sin(v)",
            each<[](double v) { return std::sin(v); }>),
      unary("cos", "torch.cos", {"torch.cos(x)", "x.cos()"}, "cosf(v[j])", "tl.cos(v)",
            each<[](double v) { return std::cos(v); }>),
      unary("erf", "torch.erf", {"torch.erf(x)", "x.erf()"}, "erff(v[j])", "tl.erf(v)",
            each<[](double v) { return std::erf(v); }>),
      unary("sqrt", "torch.sqrt", {"torch.sqrt(x)", "x.sqrt()"}, "sqrtf(v[j])", "tl.sqrt(v)",
            each<[](double v) { return std::sqrt(v); }>),
      unary("log1p", "torch.log1p", {"torch.log1p(x)", "x.log1p()"}, "log1pf(v[j])", "tl.log(1.0 + v)",
            each<[](double v) { return std::log1p(v); }>),
  };
  return list;
}

}  // namespace

std::vector<Family> unary_families() {
  std::vector<Family> list = activations();
  for (Family& family : functions()) list.push_back(std::move(family));
  for (Family& family : list) {
    if (family.name == "sqrt" || family.name == "log1p") family.positive_input = true;
    for (const char* name :
         {"relu", "relu6", "sigmoid", "softplus", "hardsigmoid", "abs", "square", "exp", "sqrt", "log1p"})
      if (family.name == name) family.positive_output = true;
    for (const char* name : {"tanh", "tanhshrink", "softplus", "logsigmoid", "selu", "mish", "log1p"})
      if (family.name == name) family.absolute_error = kCancelled;
    if (family.name ==
        "relu")  // fmaxf is a call without -ffast-math; this is an instruction, and passes NaN on as torch does
      family.cpp.push_back({"select", kLoop + "v[j] = v[j] < 0.0f ? 0.0f : v[j];"});
    if (family.name == "tanh")
      family.cpp.push_back({"closed_form", kLoop + "v[j] = 1.0f - 2.0f / (1.0f + expf(2.0f * v[j]));"});
    if (family.name ==
        "mish") {  // tanh(log(u)) = 1 - 2 / (u * u + 1) with u = 1 + exp(v): one transcendental, not three
      family.cpp.push_back({"closed_form", kLoop + "u[j] = 1.0f + expf(v[j]);\n" + kLoop +
                                               "v[j] = v[j] * (1.0f - 2.0f / (u[j] * u[j] + 1.0f));"});
      family.triton = {{"main", "u = 1.0 + tl.exp(v)\nv = v * (1.0 - 2.0 / (u * u + 1.0))"}};
    }
  }
  return list;
}

}  // namespace kz::corpus
