// Whether a chain makes a sound task, found out by running it in double precision on a few rows.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "corpus/reference.h"

namespace kz::corpus {
namespace {

constexpr int kRows = 5;
constexpr size_t kSlice = 32;
constexpr double kMaxAmplified = 4e-6;  // of that noise, put on the input and after every operator, in the output
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

}  // namespace

bool is_sound(Rng& rng, const Chain& chain) {
  const ChainInputs inputs = draw_inputs(rng, chain, kRows);
  const std::vector<double> y = evaluate(chain, inputs);
  if (y.empty()) return false;
  for (double v : y)
    if (!std::isfinite(v) || std::fabs(v) > kMaxValue) return false;
  const double scale = magnitude(y);
  if (scale < kMinMagnitude || scale > kMaxMagnitude || spread(y) < kMinSpread * scale) return false;

  const std::vector<double> noisy = evaluate(chain, inputs, kNone, &rng);
  if (noisy.size() != y.size()) return false;
  // Keck holds each row to its own size, when there is enough of it.
  const size_t width = static_cast<size_t>(chain.width_out()), slice = width >= kSlice ? width : y.size();
  for (size_t begin = 0; begin < y.size(); begin += slice) {
    const auto first = y.begin() + static_cast<std::ptrdiff_t>(begin);
    const double own = magnitude({first, first + static_cast<std::ptrdiff_t>(slice)});
    for (size_t i = begin; i < begin + slice; ++i)
      if (!(std::fabs(noisy[i] - y[i]) <= kMaxAmplified * own)) return false;
  }

  for (size_t k = 0; k < chain.operators.size(); ++k) {
    if (!keeps_width(chain.operators[k].family->kind)) continue;
    const std::vector<double> without = evaluate(chain, inputs, k);
    if (without.size() != y.size()) continue;  // a later operator can't even take what is left
    const auto changed = static_cast<double>(std::inner_product(
        y.begin(), y.end(), without.begin(), 0, std::plus<>(),
        [&](double a, double b) { return std::fabs(a - b) > kIdleChange * scale || !std::isfinite(b) ? 1 : 0; }));
    if (changed < kIdleShare * static_cast<double>(y.size())) return false;
  }
  return true;
}

}  // namespace kz::corpus
