// Operators along the row: [N, W] -> [N, W], and glu, which halves it. In C++ `n` is the present width, v the row, u a
// second buffer; in Triton v is a tile [16, BLOCK] whose lanes outside `mask` hold anything.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "corpus/family_parts.h"

namespace kz::corpus {
namespace {

using Row = std::vector<double>;

std::string block(const std::vector<std::string>& statements) {
  std::string code = "{\n";
  for (const std::string& statement : statements) code += "  " + statement + ";\n";
  return code + "}";
}

Family along(std::string name, std::string api, const std::vector<std::string>& calls, std::string cpp,
             std::string triton, Reference reference) {
  Family family{.name = std::move(name), .api = std::move(api), .kind = Kind::kRow, .spellings = spell(calls)};
  family.cpp = {{"main", std::move(cpp)}};
  family.triton = {{"main", std::move(triton)}};
  family.reference = reference;
  return family;
}

void softmax(Row& row, const Arguments&) {
  const double m = *std::max_element(row.begin(), row.end());
  double s = 0;
  for (double& v : row) s += v = std::exp(v - m);
  for (double& v : row) v /= s;
}

void scale_by(Row& row, double factor) {
  for (double& v : row) v *= factor;
}

double sum_of_squares(const Row& row) { return std::inner_product(row.begin(), row.end(), row.begin(), 0.0); }

const std::string kSum = ", axis=1, keep_dims=True)";

std::vector<Family> softmaxes() {
  const std::string f = "torch.nn.functional.", L = kLoop;
  const std::string max_start = "float m = v[0], s = 0.0f", max_loop = L + "m = v[j] > m ? v[j] : m";
  std::vector<Family> list = {
      along("softmax", f + "softmax", {"torch.softmax(x, dim=-1)", "F.softmax(x, dim=-1)", "nn.Softmax(dim=-1)"},
            block({max_start, max_loop, L + "s += v[j] = expf(v[j] - m)", L + "v[j] = v[j] / s"}),
            "v = tl.where(mask, v, -float('inf'))\nv = tl.exp(v - tl.max(v" + kSum + ")\nv = v / tl.sum(v" + kSum,
            softmax),
      along("softmin", f + "softmin", {"F.softmin(x, dim=-1)", "nn.Softmin(dim=-1)"},
            block({max_start, L + "m = v[j] < m ? v[j] : m", L + "s += v[j] = expf(m - v[j])", L + "v[j] = v[j] / s"}),
            "v = tl.where(mask, -v, -float('inf'))\nv = tl.exp(v - tl.max(v" + kSum + ")\nv = v / tl.sum(v" + kSum,
            [](Row& row, const Arguments& arguments) {
              scale_by(row, -1);
              softmax(row, arguments);
            }),
      along("log_softmax", f + "log_softmax",
            {"torch.log_softmax(x, dim=-1)", "F.log_softmax(x, dim=-1)", "nn.LogSoftmax(dim=-1)"},
            block({max_start, max_loop, L + "s += expf(v[j] - m)", "m = m + logf(s)", L + "v[j] = v[j] - m"}),
            "v = tl.where(mask, v, -float('inf'))\nv = v - tl.max(v" + kSum + "\nv = v - tl.log(tl.sum(tl.exp(v)" +
                kSum + ")",
            [](Row& row, const Arguments&) {
              const double m = *std::max_element(row.begin(), row.end());
              double s = 0;
              for (double v : row) s += std::exp(v - m);
              for (double& v : row) v -= m + std::log(s);
            }),
  };
  list[0].positive_output = list[1].positive_output = true;
  list[0].cpp.push_back(
      {"recompute", block({max_start, max_loop, L + "s += expf(v[j] - m)", L + "v[j] = expf(v[j] - m) / s"})});
  return list;
}

std::vector<Family> norms() {
  const std::string f = "torch.nn.functional.", L = kLoop;
  const std::string squares = L + "s += v[j] * v[j]";
  std::vector<Family> list = {
      along("layer_norm", f + "layer_norm", {"F.layer_norm(x, ({W},))", "nn.LayerNorm({W}, elementwise_affine=False)"},
            block({"float m = 0.0f, s = 0.0f", L + "m += v[j]", "m = m / n", L + "s += (v[j] - m) * (v[j] - m)",
                   "s = 1.0f / sqrtf(s / n + 1e-5f)", L + "v[j] = (v[j] - m) * s"}),
            "m = tl.sum(tl.where(mask, v, 0.0)" + kSum + " / W\nv = tl.where(mask, v - m, 0.0)\n" +
                "v = v * tl.rsqrt(tl.sum(v * v" + kSum + " / W + 1e-5)",
            [](Row& row, const Arguments&) {
              const double m = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
              for (double& v : row) v -= m;
              scale_by(row, 1 / std::sqrt(sum_of_squares(row) / static_cast<double>(row.size()) + 1e-5));
            }),
      along("rms_norm", f + "rms_norm", {"F.rms_norm(x, ({W},))", "nn.RMSNorm({W}, elementwise_affine=False)"},
            block({"float s = 0.0f", squares, "s = 1.0f / sqrtf(s / n + 1.1920929e-7f)", L + "v[j] = v[j] * s"}),
            "v = tl.where(mask, v, 0.0)\nv = v * tl.rsqrt(tl.sum(v * v" + kSum + " / W + 1.1920929e-7)",
            [](Row& row, const Arguments&) {
              scale_by(row, 1 / std::sqrt(sum_of_squares(row) / static_cast<double>(row.size()) + 1.1920929e-7));
            }),
      along("normalize", f + "normalize", {"F.normalize(x, dim=-1)"},
            block({"float s = 0.0f", squares, "s = 1.0f / fmaxf(sqrtf(s), 1e-12f)", L + "v[j] = v[j] * s"}),
            "v = tl.where(mask, v, 0.0)\nv = v / tl.maximum(tl.sqrt(tl.sum(v * v" + kSum + "), 1e-12)",
            [](Row& row, const Arguments&) { scale_by(row, 1 / std::fmax(std::sqrt(sum_of_squares(row)), 1e-12)); }),
  };
  return list;
}

std::vector<Family> moves() {
  const std::string L = kLoop;
  std::vector<Family> list = {
      along("cumsum", "torch.cumsum", {"torch.cumsum(x, dim=-1)", "x.cumsum(dim=-1)"},
            block({"float s = 0.0f", L + "v[j] = s += v[j]"}), "v = tl.cumsum(tl.where(mask, v, 0.0), axis=1)",
            [](Row& row, const Arguments&) { std::partial_sum(row.begin(), row.end(), row.begin()); }),
      along("flip", "torch.flip", {"torch.flip(x, dims=[-1])", "x.flip(dims=[-1])"},
            L + "u[j] = v[n - 1 - j];\n" + L + "v[j] = u[j];", "v = tl.gather(v, tl.where(mask, W - 1 - cols, 0), 1)",
            [](Row& row, const Arguments&) { std::reverse(row.begin(), row.end()); }),
      along("roll", "torch.roll", {"torch.roll(x, {I}, dims=-1)", "x.roll({I}, dims=-1)"},
            L + "u[(j + {I}) % n] = v[j];\n" + L + "v[j] = u[j];",
            "v = tl.gather(v, tl.where(mask, (cols + W - {I}) % W, 0), 1)",
            [](Row& row, const Arguments& arguments) { std::rotate(row.begin(), row.end() - arguments.i, row.end()); }),
      along("glu", "torch.nn.functional.glu", {"F.glu(x, dim=-1)", "nn.GLU(dim=-1)"},
            "n = n / 2;\n" + L + "v[j] = v[j] / (1.0f + expf(-v[n + j]));",
            "W = W // 2\nmask = (rows < N) & (cols < W)\nv = v * tl.sigmoid(tl.gather(v, tl.where(mask, W + cols, 0), "
            "1))",
            [](Row& row, const Arguments&) {
              const size_t half = row.size() / 2;
              for (size_t j = 0; j < half; ++j) row[j] /= 1 + std::exp(-row[half + j]);
              row.resize(half);
            }),
  };
  list[3].kind = Kind::kHalf;
  return list;
}

}  // namespace

std::vector<Family> row_families() {
  std::vector<Family> list = softmaxes();
  for (auto part : {norms(), moves()})
    for (Family& family : part) list.push_back(std::move(family));
  return list;
}

}  // namespace kz::corpus
