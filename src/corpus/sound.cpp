// Whether a chain makes a sound task, found out by running it in double precision on a few rows.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "corpus/reference.h"

namespace kz::corpus {
namespace {

constexpr int kRows = 4;
constexpr int kEnough = 96;  // elements of a row
constexpr size_t kSlice = 32;
constexpr double kUnit = 0x1p-24;
constexpr double kOutlier = 128;  // times the largest input, as Keck plants them
constexpr double kFloat32Max = 3.4e38;
// Of the tolerance of Keck's strict check: what an input's last place may change in the output (Keck allows a quarter),
// and what the roundings of a kernel may add up to.
constexpr double kInputShare = 0.2, kKernelShare = 0.6;
constexpr double kMinMagnitude = 2e-3, kMaxMagnitude = 1e3, kMaxValue = 1e4;
constexpr double kMinSpread = 0.008;                     // standard deviation of the output over its magnitude
constexpr double kIdleChange = 0.01, kIdleShare = 0.02;  // an operator changes at least 2% of the outputs by 1%

double spread(const std::vector<double>& values) {
  double m = 0;
  for (double v : values) m += v / static_cast<double>(values.size());
  std::vector<double> centred = values;
  for (double& v : centred) v -= m;
  return magnitude(centred);
}

bool keeps_width(Kind kind) { return kind != Kind::kHalf && kind != Kind::kReduce && kind != Kind::kWeight; }

bool along_rows(const Operator& op) {
  const Kind kind = op.family->kind;
  return kind == Kind::kRow || kind == Kind::kHalf || kind == Kind::kReduce || kind == Kind::kWeight;
}

bool has_sums(const Chain& chain) { return std::any_of(chain.operators.begin(), chain.operators.end(), along_rows); }

double largest_input(const Chain& chain) {
  int cells = chain.rows * chain.width;
  if (const Operator* weight = chain.weight()) cells = std::max(cells, weight->width_in * weight->width_out);
  return cells;
}

// Elements of an elementwise chain say nothing about each other: a part of the row is enough.
Chain narrowed(Chain chain) {
  if (has_sums(chain)) return chain;
  chain.width = std::min(chain.width, kEnough);
  for (Operator& op : chain.operators) op.width_in = op.width_out = chain.width;
  return chain;
}

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::fabs(v) < kFloat32Max; });
}

// Whether the noise stays within a share of the tolerance; y is the output for these inputs. Keck holds each row to its
// own size, when there is enough of it.
bool is_stable(const Chain& chain, const ChainInputs& inputs, const std::vector<double>& y, Noise noise, double share) {
  const std::vector<double> noisy = evaluate(chain, inputs, kNone, noise);
  if (noisy.size() != y.size()) return false;
  const size_t width = static_cast<size_t>(chain.width_out()), slice = width >= kSlice ? width : y.size();
  const double relative = share * (16 + 2 * std::sqrt(largest_input(chain))) * kUnit, floor = share * 64 * kUnit;
  for (size_t begin = 0; begin < y.size(); begin += slice) {
    const auto first = y.begin() + static_cast<std::ptrdiff_t>(begin);
    const double own = magnitude({first, first + static_cast<std::ptrdiff_t>(slice)});
    for (size_t i = begin; i < begin + slice; ++i)
      if (!(std::fabs(noisy[i] - y[i]) <= relative * std::fabs(y[i]) + floor * own)) return false;
  }
  return true;
}

void plant_outliers(Rng& rng, std::vector<double>& values) {
  double largest = 0;
  for (double v : values) largest = std::max(largest, std::fabs(v));
  const size_t count = 1 + values.size() / 256;
  for (size_t i = 0; i < count; ++i) {
    double& v = values[rng.below(values.size())];
    v = std::copysign(kOutlier * largest, v);
  }
}

void plant_outliers(Rng& rng, ChainInputs& inputs) {
  for (auto& row : inputs.x) plant_outliers(rng, row);
  for (auto& other : inputs.others)
    for (auto& row : other) plant_outliers(rng, row);
}

}  // namespace

bool is_sound(Rng& rng, const Chain& whole) {
  const Chain chain = narrowed(whole);
  ChainInputs inputs = draw_inputs(rng, chain, kRows);
  const std::vector<double> y = evaluate(chain, inputs);
  if (y.empty()) return false;
  if (!all_finite(y) || *std::max_element(y.begin(), y.end()) > kMaxValue) return false;
  const double scale = magnitude(y);
  if (scale < kMinMagnitude || scale > kMaxMagnitude || spread(y) < kMinSpread * scale) return false;

  const Noise input{.rng = &rng, .on_input = true}, kernel{.rng = &rng, .on_operators = true};
  if (!is_stable(chain, inputs, y, input, kInputShare) || !is_stable(chain, inputs, y, kernel, kKernelShare))
    return false;
  for (size_t k = 0; k < chain.operators.size(); ++k) {
    if (!keeps_width(chain.operators[k].family->kind)) continue;
    const std::vector<double> without = evaluate(chain, inputs, k);
    if (without.size() != y.size()) continue;  // a later operator can't even take what is left
    const auto changed = static_cast<double>(std::inner_product(
        y.begin(), y.end(), without.begin(), 0, std::plus<>(),
        [&](double a, double b) { return std::fabs(a - b) > kIdleChange * scale || !std::isfinite(b) ? 1 : 0; }));
    if (changed < kIdleShare * static_cast<double>(y.size())) return false;
  }
  // So it must be where a few inputs are far from the others, unless the module itself overflows there.
  plant_outliers(rng, inputs);
  const std::vector<double> far = evaluate(chain, inputs);
  return !all_finite(far) || is_stable(chain, inputs, far, kernel, kKernelShare);
}

}  // namespace kz::corpus
