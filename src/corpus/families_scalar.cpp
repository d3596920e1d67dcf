// Elementwise operators with scalar parameters {A} {B}: to be copied from the module into the kernel.
#include <cmath>
#include <vector>

#include "corpus/family_parts.h"

namespace kz::corpus {
namespace {

template <auto F>
void each(std::vector<double>& row, const Arguments& arguments) {
  for (double& v : row) v = F(v, arguments.a, arguments.b);
}

Family scalar(std::string name, std::string api, const std::vector<std::string>& calls, const std::string& cpp,
              const std::string& triton, Reference reference) {
  Family family{.name = std::move(name), .api = std::move(api), .kind = Kind::kScalar, .spellings = spell(calls)};
  family.cpp = {{"main", kLoop + "v[j] = " + cpp + ";"}};
  family.triton = {{"main", "v = " + triton}};
  family.reference = reference;
  return family;
}

}  // namespace

std::vector<Family> scalar_families() {
  const std::string f = "torch.nn.functional.";
  const std::string clamp_cpp = "fminf(fmaxf(v[j], -{A}f), {B}f)";
  const std::string clamp_triton = "tl.minimum(tl.maximum(v, -{A}), {B})";
  const Reference clamp = each<[](double v, double a, double b) { return std::fmin(std::fmax(v, -a), b); }>;
  std::vector<Family> list = {
      scalar("leaky_relu", f + "leaky_relu", {"F.leaky_relu(x, {A})", "nn.LeakyReLU({A})"},
             "v[j] > 0.0f ? v[j] : {A}f * v[j]", "tl.where(v > 0.0, v, {A} * v)",
             each<[](double v, double a, double) { return (v > 0) ? v : a * v; }>),
      scalar("elu", f + "elu", {"F.elu(x, {A})", "nn.ELU({A})"}, "v[j] > 0.0f ? v[j] : {A}f * expm1f(v[j])",
             "tl.where(v > 0.0, v, {A} * (tl.exp(v) - 1.0))",
             each<[](double v, double a, double) { return (v > 0) ? v : a * std::expm1(v); }>),
      scalar("celu", "torch.celu", {"torch.celu(x, {A})", "F.celu(x, {A})", "nn.CELU({A})"},
             "v[j] > 0.0f ? v[j] : {A}f * expm1f(v[j] / {A}f)", "tl.where(v > 0.0, v, {A} * (tl.exp(v / {A}) - 1.0))",
             each<[](double v, double a, double) { return (v > 0) ? v : a * std::expm1(v / a); }>),
      scalar("softshrink", f + "softshrink", {"F.softshrink(x, {A})", "nn.Softshrink({A})"},
             "fmaxf(v[j] - {A}f, 0.0f) + fminf(v[j] + {A}f, 0.0f)",
             "tl.maximum(v - {A}, 0.0) + tl.minimum(v + {A}, 0.0)",
             each<[](double v, double a, double) { return std::fmax(v - a, 0) + std::fmin(v + a, 0); }>),
      scalar("clamp", "torch.clamp", {"torch.clamp(x, -{A}, {B})", "x.clamp(-{A}, {B})"}, clamp_cpp, clamp_triton,
             clamp),
      scalar("hardtanh", f + "hardtanh", {"F.hardtanh(x, -{A}, {B})", "nn.Hardtanh(-{A}, {B})"}, clamp_cpp,
             clamp_triton, clamp),
      scalar("add_scalar", "torch.add", {"torch.add(x, {A})", "x.add({A})"}, "v[j] + {A}f", "v + {A}",
             each<[](double v, double a, double) { return v + a; }>),
      scalar("sub_scalar", "torch.sub", {"torch.sub(x, {A})", "x.sub({A})"}, "v[j] - {A}f", "v - {A}",
             each<[](double v, double a, double) { return v - a; }>),
      scalar("mul_scalar", "torch.mul", {"torch.mul(x, {A})", "x.mul({A})"}, "v[j] * {A}f", "v * {A}",
             each<[](double v, double a, double) { return v * a; }>),
      scalar("div_scalar", "torch.div", {"torch.div(x, {A})", "x.div({A})"}, "v[j] / {A}f", "v / {A}",
             each<[](double v, double a, double) { return v / a; }>),
  };
  for (Family& family : list)  // exp(v) - 1
    if (family.name == "elu" || family.name == "celu") family.absolute_error = 1.2e-7;
  return list;
}

}  // namespace kz::corpus
