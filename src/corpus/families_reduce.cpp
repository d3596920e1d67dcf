// Reductions of the row to one number, kept as a dimension of size one: they end a chain.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "corpus/family_parts.h"

namespace kz::corpus {
namespace {

using Row = std::vector<double>;

const std::string kSum = ", axis=1, keep_dims=True)";

double variance(const Row& row) {
  const double n = static_cast<double>(row.size()), m = std::accumulate(row.begin(), row.end(), 0.0) / n;
  double s = 0;
  for (double v : row) s += (v - m) * (v - m);
  return s / (n - 1);
}

// `cpp` are statements that leave the result in s; `triton` statements that leave it in v.
Family reduce(const std::string& name, bool method, const std::vector<std::string>& cpp, const std::string& triton,
              Reference reference) {
  std::vector<std::string> calls = {"torch." + name + "(x, dim=-1, keepdim=True)"};
  if (method) calls.push_back("x." + name + "(dim=-1, keepdim=True)");
  Family family{.name = name, .api = "torch." + name, .kind = Kind::kReduce, .spellings = spell(calls)};
  std::string code = "{\n";
  for (const std::string& statement : cpp) code += "  " + statement + ";\n";
  family.cpp = {{"main", code + "  v[0] = s;\n  n = 1;\n}"}};
  family.triton = {{"main", triton + "\nW = 1\nmask = (rows < N) & (cols < W)"}};
  family.reference = reference;
  return family;
}

}  // namespace

std::vector<Family> reduce_families() {
  const std::string L = kLoop, zero = "float s = 0.0f";
  const std::string z = "tl.where(mask, v, 0.0)", low = "tl.where(mask, v, -float('inf'))";
  const std::vector<std::string> variance_cpp = {"float m = 0.0f, s = 0.0f", L + "m += v[j]", "m = m / n",
                                                 L + "s += (v[j] - m) * (v[j] - m)"};
  auto variance_then = [&](const std::string& last) {
    auto statements = variance_cpp;
    statements.push_back(last);
    return statements;
  };
  const std::string variance_triton = "m = tl.sum(" + z + kSum + " / W\nv = tl.where(mask, v - m, 0.0)\nv = ";
  return {
      reduce("sum", true, {zero, L + "s += v[j]"}, "v = tl.sum(" + z + kSum,
             [](Row& row, const Arguments&) { row = {std::accumulate(row.begin(), row.end(), 0.0)}; }),
      reduce("mean", true, {zero, L + "s += v[j]", "s = s / n"}, "v = tl.sum(" + z + kSum + " / W",
             [](Row& row, const Arguments&) {
               row = {std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size())};
             }),
      reduce("amax", true, {"float s = v[0]", L + "s = v[j] > s ? v[j] : s"}, "v = tl.max(" + low + kSum,
             [](Row& row, const Arguments&) { row = {*std::max_element(row.begin(), row.end())}; }),
      reduce("amin", true, {"float s = v[0]", L + "s = v[j] < s ? v[j] : s"},
             "v = tl.min(tl.where(mask, v, float('inf'))" + kSum,
             [](Row& row, const Arguments&) { row = {*std::min_element(row.begin(), row.end())}; }),
      reduce("logsumexp", true,
             {"float m = v[0], s = 0.0f", L + "m = v[j] > m ? v[j] : m", L + "s += expf(v[j] - m)", "s = m + logf(s)"},
             "v = " + low + "\nm = tl.max(v" + kSum + "\nv = m + tl.log(tl.sum(tl.exp(v - m)" + kSum + ")",
             [](Row& row, const Arguments&) {
               const double m = *std::max_element(row.begin(), row.end());
               double s = 0;
               for (double v : row) s += std::exp(v - m);
               row = {m + std::log(s)};
             }),
      reduce("norm", true, {zero, L + "s += v[j] * v[j]", "s = sqrtf(s)"},
             "v = " + z + "\nv = tl.sqrt(tl.sum(v * v" + kSum + ")",
             [](Row& row, const Arguments&) {
               row = {std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0))};
             }),
      reduce("var", true, variance_then("s = s / (n - 1)"), variance_triton + "tl.sum(v * v" + kSum + " / (W - 1)",
             [](Row& row, const Arguments&) { row = {variance(row)}; }),
      reduce("std", true, variance_then("s = sqrtf(s / (n - 1))"),
             variance_triton + "tl.sqrt(tl.sum(v * v" + kSum + " / (W - 1))",
             [](Row& row, const Arguments&) { row = {std::sqrt(variance(row))}; }),
  };
}

}  // namespace kz::corpus
