// Operators with a further input {a}: of the same shape, a vector [W], or a weight. In C++ {a}p points to its data.
#include <cmath>
#include <vector>

#include "corpus/family_parts.h"

namespace kz::corpus {
namespace {

using Row = std::vector<double>;

template <auto F>
void with(Row& row, const Arguments& arguments) {
  for (size_t j = 0; j < row.size(); ++j) row[j] = F(row[j], arguments.other[j], arguments.a);
}

// `cpp` and `triton` are expressions in which @ stands for the further input's element.
Family with_input(std::string name, const std::string& api, Kind kind, const std::vector<std::string>& calls,
                  std::string cpp, std::string triton, Reference reference) {
  auto put = [](std::string text, const std::string& element) { return text.replace(text.find('@'), 1, element); };
  const bool vector = kind == Kind::kVector;
  Family family{.name = std::move(name), .api = api, .kind = kind, .spellings = spell(calls)};
  family.cpp = {{"main", kLoop + "v[j] = " + put(std::move(cpp), vector ? "{a}p[j]" : "{a}p[i * n + j]") + ";"}};
  family.triton = {{"main", "v = " + put(std::move(triton), vector ? "tl.load({a}_ptr + cols, mask=cols < W, other=0.0)"
                                                                   : "tl.load({a}_ptr + rows * W + cols, mask=mask, "
                                                                     "other=0.0)")}};
  family.reference = reference;
  return family;
}

Family weight(std::string name, const std::string& api, const std::vector<std::string>& calls,
              std::vector<Lowering> cpp, const std::string& load, Reference reference) {
  Family family{.name = std::move(name), .api = api, .kind = Kind::kWeight, .spellings = spell(calls)};
  family.cpp = std::move(cpp);
  for (Lowering& lowering : family.cpp) lowering.code += "\nn = D;\n" + kLoop + "v[j] = u[j];";
  family.triton = {{"main", "k = tl.arange(0, BLOCK)[:, None]\nw = tl.load({a}_ptr + " + load +
                                ", mask=(k < W) & (cols < D), other=0.0)\nv = tl.dot(tl.where(mask, v, 0.0), w, "
                                "input_precision='ieee')\nW = D\nmask = (rows < N) & (cols < W)"}};
  family.reference = reference;
  return family;
}

double add(double v, double w, double) { return v + w; }
double mul(double v, double w, double) { return v * w; }

}  // namespace

std::vector<Family> input_families() {
  const std::string columns = "for (int o = 0; o < D; o++) ", L = kLoop;
  const std::string dot = columns + "{\n  float s = 0.0f;\n  " + L;
  return {
      with_input("add", "torch.add", Kind::kBinary, {"torch.add(x, {a})", "x.add({a})"}, "v[j] + @", "v + @",
                 with<add>),
      with_input("sub", "torch.sub", Kind::kBinary, {"torch.sub(x, {a})", "x.sub({a})"}, "v[j] - @", "v - @",
                 with<[](double v, double w, double) { return v - w; }>),
      with_input("mul", "torch.mul", Kind::kBinary, {"torch.mul(x, {a})", "x.mul({a})"}, "v[j] * @", "v * @",
                 with<mul>),
      with_input("maximum", "torch.maximum", Kind::kBinary, {"torch.maximum(x, {a})", "x.maximum({a})"},
                 "fmaxf(v[j], @)", "tl.maximum(v, @)",
                 with<[](double v, double w, double) { return std::fmax(v, w); }>),
      with_input("minimum", "torch.minimum", Kind::kBinary, {"torch.minimum(x, {a})", "x.minimum({a})"},
                 "fminf(v[j], @)", "tl.minimum(v, @)",
                 with<[](double v, double w, double) { return std::fmin(v, w); }>),
      with_input("lerp", "torch.lerp", Kind::kBinary, {"torch.lerp(x, {a}, {A})", "x.lerp({a}, {A})"},
                 "v[j] + {A}f * (@ - v[j])", "v + {A} * (@ - v)",
                 with<[](double v, double w, double a) { return v + a * (w - v); }>),
      with_input("add_vector", "torch.add", Kind::kVector, {"torch.add(x, {a})", "x.add({a})"}, "v[j] + @", "v + @",
                 with<add>),
      with_input("mul_vector", "torch.mul", Kind::kVector, {"torch.mul(x, {a})", "x.mul({a})"}, "v[j] * @", "v * @",
                 with<mul>),
      weight("linear", "torch.nn.functional.linear", {"F.linear(x, {a})"},
             {{"main", dot + "s += v[j] * {a}p[o * n + j];\n  u[o] = s;\n}"}}, "cols * W + k",
             [](Row& row, const Arguments& arguments) {
               Row out(static_cast<size_t>(arguments.d));
               for (size_t o = 0; o < out.size(); ++o)
                 for (size_t j = 0; j < row.size(); ++j) out[o] += row[j] * arguments.other[o * row.size() + j];
               row = std::move(out);
             }),
      weight("matmul", "torch.matmul", {"torch.matmul(x, {a})", "x.matmul({a})"},
             {{"main", columns + "u[o] = 0.0f;\n" + L + columns + "u[o] += v[j] * {a}p[j * D + o];"},
              {"dot", dot + "s += v[j] * {a}p[j * D + o];\n  u[o] = s;\n}"}},
             "k * D + cols",
             [](Row& row, const Arguments& arguments) {
               Row out(static_cast<size_t>(arguments.d));
               for (size_t j = 0; j < row.size(); ++j)
                 for (size_t o = 0; o < out.size(); ++o) out[o] += row[j] * arguments.other[j * out.size() + o];
               row = std::move(out);
             }),
  };
}

}  // namespace kz::corpus
