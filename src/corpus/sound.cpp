// Whether a chain makes a sound task, found out by running it in double precision on a few rows.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "corpus/chain.h"

namespace kz::corpus {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr int kRows = 4;
constexpr double kNoise = 1.2e-7;  // one unit in the last place of float32
constexpr double kSumNoise = 3 * kNoise;
constexpr double kMaxAmplified = 4e-6;  // of that noise, put on the input and after every operator, in the output
constexpr double kMinMagnitude = 2e-3, kMaxMagnitude = 1e3, kMaxValue = 1e4;
constexpr double kMinSpread = 0.008;                     // standard deviation of the output over its magnitude
constexpr double kIdleChange = 0.01, kIdleShare = 0.02;  // an operator changes at least 2% of the outputs by 1%

struct Inputs {
  Rows x;
  std::vector<Rows> others;  // one an operator; kVector and kWeight have one row
};

std::vector<double> normals(Rng& rng, size_t n, bool uniform) {
  std::vector<double> values(n);
  for (double& value : values) value = uniform ? rng.uniform() : rng.normal();
  return values;
}

Inputs draw_inputs(Rng& rng, const Chain& chain) {
  Inputs inputs;
  for (int r = 0; r < kRows; ++r)
    inputs.x.push_back(normals(rng, static_cast<size_t>(chain.width), chain.uniform_input));
  for (const Operator& op : chain.operators) {
    Rows other;
    const size_t in = static_cast<size_t>(op.width_in), out = static_cast<size_t>(op.width_out);
    if (op.family->kind == Kind::kBinary)
      for (int r = 0; r < kRows; ++r) other.push_back(normals(rng, in, false));
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

// The output, without operator `skip`, and with relative noise after every step when `noise` is given. Empty when an
// operator got what it does not take.
std::vector<double> run(const Chain& chain, const Inputs& inputs, size_t skip, Rng* noise) {
  std::vector<double> out;
  auto disturb = [&](std::vector<double>& row, bool sums) {
    if (!noise) return;
    // What comes of a sum carries the errors of its largest terms, also where it is near zero itself.
    const double floor = sums ? kSumNoise * magnitude(row) : 0;
    for (double& v : row) {
      const double sign = (*noise)() & 1 ? 1 : -1;
      v += sign * (kNoise * std::fabs(v) + floor);
    }
  };
  for (int r = 0; r < kRows; ++r) {
    std::vector<double> row = inputs.x[static_cast<size_t>(r)];
    disturb(row, false);
    for (size_t k = 0; k < chain.operators.size(); ++k) {
      if (k == skip) continue;
      const Operator& op = chain.operators[k];
      if (op.family->positive_input && *std::min_element(row.begin(), row.end()) < 0) return {};
      Arguments arguments{.a = std::stod(op.a), .b = std::stod(op.b), .i = op.i, .d = op.width_out};
      const Rows& other = inputs.others[k];
      if (!other.empty()) arguments.other = other[other.size() == 1 ? 0 : static_cast<size_t>(r)].data();
      op.family->reference(row, arguments);
      disturb(row,
              op.family->kind == Kind::kRow || op.family->kind == Kind::kReduce || op.family->kind == Kind::kWeight);
    }
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

double spread(const std::vector<double>& values) {
  double m = 0;
  for (double v : values) m += v / static_cast<double>(values.size());
  std::vector<double> centred = values;
  for (double& v : centred) v -= m;
  return magnitude(centred);
}

bool keeps_width(Kind kind) { return kind != Kind::kHalf && kind != Kind::kReduce && kind != Kind::kWeight; }

}  // namespace

bool is_sound(Rng& rng, const Chain& chain) {
  const Inputs inputs = draw_inputs(rng, chain);
  const size_t none = chain.operators.size();
  const std::vector<double> y = run(chain, inputs, none, nullptr);
  if (y.empty()) return false;
  for (double v : y)
    if (!std::isfinite(v) || std::fabs(v) > kMaxValue) return false;
  const double scale = magnitude(y);
  if (scale < kMinMagnitude || scale > kMaxMagnitude || spread(y) < kMinSpread * scale) return false;

  const std::vector<double> noisy = run(chain, inputs, none, &rng);
  if (noisy.size() != y.size()) return false;
  for (size_t i = 0; i < y.size(); ++i)
    if (!(std::fabs(noisy[i] - y[i]) <= kMaxAmplified * scale)) return false;

  for (size_t k = 0; k < chain.operators.size(); ++k) {
    if (!keeps_width(chain.operators[k].family->kind)) continue;
    const std::vector<double> without = run(chain, inputs, k, nullptr);
    if (without.size() != y.size()) continue;  // a later operator can't even take what is left
    const auto changed = static_cast<double>(std::inner_product(
        y.begin(), y.end(), without.begin(), 0, std::plus<>(),
        [&](double a, double b) { return std::fabs(a - b) > kIdleChange * scale || !std::isfinite(b) ? 1 : 0; }));
    if (changed < kIdleShare * static_cast<double>(y.size())) return false;
  }
  return true;
}

}  // namespace kz::corpus
