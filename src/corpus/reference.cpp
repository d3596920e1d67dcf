#include "corpus/reference.h"

#include <algorithm>
#include <cmath>

namespace kz::corpus {
namespace {

constexpr double kNoise = 1.2e-7;  // one unit in the last place of float32
constexpr double kSumNoise = 3 * kNoise;

std::vector<double> normals(Rng& rng, size_t n, bool uniform) {
  std::vector<double> values(n);
  for (double& value : values) value = uniform ? rng.uniform() : rng.normal();
  return values;
}

}  // namespace

ChainInputs draw_inputs(Rng& rng, const Chain& chain, int rows) {
  ChainInputs inputs;
  for (int r = 0; r < rows; ++r)
    inputs.x.push_back(normals(rng, static_cast<size_t>(chain.width), chain.uniform_input));
  for (const Operator& op : chain.operators) {
    std::vector<std::vector<double>> other;
    const size_t in = static_cast<size_t>(op.width_in), out = static_cast<size_t>(op.width_out);
    if (op.family->kind == Kind::kBinary)
      for (int r = 0; r < rows; ++r) other.push_back(normals(rng, in, false));
    if (op.family->kind == Kind::kVector) other.push_back(normals(rng, in, false));
    if (op.family->kind == Kind::kWeight) other.push_back(normals(rng, in * out, false));
    inputs.others.push_back(std::move(other));
  }
  return inputs;
}

double magnitude(const std::vector<double>& values) {
  double s = 0;
  for (double v : values) s += v * v;
  return std::sqrt(s / static_cast<double>(values.size()));
}

std::vector<double> evaluate(const Chain& chain, const ChainInputs& inputs, size_t skip, Noise noise) {
  std::vector<double> out;
  auto disturb = [&](std::vector<double>& row, double absolute) {
    for (double& v : row) {
      const double sign = (*noise.rng)() & 1 ? 1 : -1;
      v += sign * (kNoise * std::fabs(v) + absolute);
    }
  };
  for (size_t r = 0; r < inputs.x.size(); ++r) {
    std::vector<double> row = inputs.x[r];
    if (noise.on_input) disturb(row, 0);
    for (size_t k = 0; k < chain.operators.size(); ++k) {
      if (k == skip) continue;
      const Operator& op = chain.operators[k];
      if (op.family->positive_input && *std::min_element(row.begin(), row.end()) < 0) return {};
      Arguments arguments{.a = std::stod(op.a), .b = std::stod(op.b), .i = op.i, .d = op.width_out};
      const auto& other = inputs.others[k];
      if (!other.empty()) arguments.other = other[other.size() == 1 ? 0 : r].data();
      op.family->reference(row, arguments);
      if (!noise.on_operators) continue;
      const Kind kind = op.family->kind;
      const bool sums = kind == Kind::kRow || kind == Kind::kReduce || kind == Kind::kWeight;
      // What comes of a sum carries the errors of its largest terms, also where it is near zero itself.
      disturb(row, op.family->absolute_error + (sums ? kSumNoise * magnitude(row) : 0));
    }
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

}  // namespace kz::corpus
