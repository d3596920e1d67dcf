#include "keck/judge/error_model.h"

#include <algorithm>
#include <cmath>

namespace kz::keck {
namespace {

constexpr double kFloat32Unit = 0x1p-24;

struct Budget {
  double relative;  // of the element
  double floor;     // of its slice's rms
  double unit;      // half a unit in the last place, relative
};

// `elementwise`: the reference is as exact as its precision allows at every element, so sums that cancel are not in
// play.
Budget budget_of(Dtype dtype, bool elementwise, int64_t sum_length) {
  // A plain running sum of n terms is off by some sqrt(n) units; blocked sums by less. The bound on n is generous, so
  // cap it.
  const double root = std::sqrt(static_cast<double>(std::clamp<int64_t>(sum_length, 1, 1 << 20)));
  const double sums = kFloat32Unit * 2 * root;
  const double cancel = elementwise ? 0 : kFloat32Unit * root;
  switch (dtype) {
    case Dtype::kFloat16:
      return {4 * 0x1p-11 + sums, 4 * 0x1p-11 + cancel, 0x1p-11};
    case Dtype::kBfloat16:
      return {4 * 0x1p-8 + sums, 4 * 0x1p-8 + cancel, 0x1p-8};
    case Dtype::kFloat64:
      return {0x1p-40, 0x1p-42, 0x1p-53};
    default:
      return {128 * kFloat32Unit + sums, 64 * kFloat32Unit + cancel, kFloat32Unit};
  }
}

double rms(std::span<const double> values) {
  double sum = 0, largest = 0;
  size_t n = 0;
  for (double v : values) {
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  }
  if (largest == 0) return 0;
  for (double v : values) {
    if (!std::isfinite(v)) continue;
    sum += (v / largest) * (v / largest);  // scaled, so that squares neither overflow nor vanish
    ++n;
  }
  return largest * std::sqrt(sum / static_cast<double>(n));
}

}  // namespace

double unit_of(Dtype dtype) { return budget_of(dtype, true, 1).unit; }

int64_t slice_length(std::span<const int64_t> shape) {
  int64_t length = 1;
  for (size_t d = shape.size(); d-- > 0 && length < 32;) length *= shape[d];
  return std::max<int64_t>(length, 1);
}

ErrorBounds error_bounds(Dtype dtype, std::span<const int64_t> shape, std::vector<double> expected,
                         std::vector<double> oracle, bool oracle_is_wider, int64_t sum_length, Dtype coarsest) {
  const size_t n = expected.size();
  ErrorBounds out;
  std::vector<double> own(n, 0.0);  // the reference's own error
  bool elementwise = false;
  bool use_oracle = oracle.size() == n;
  if (use_oracle) {
    const double unit = unit_of(dtype);
    size_t loose = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!std::isfinite(oracle[i])) oracle[i] = expected[i];
      own[i] = std::isfinite(expected[i]) ? std::fabs(expected[i] - oracle[i]) : NAN;
      if (own[i] > 8 * unit * std::fabs(oracle[i])) ++loose;
    }
    elementwise = oracle_is_wider && static_cast<double>(loose) <= 5e-4 * static_cast<double>(n);
    if (unit_of(coarsest) > unit && rms(own) > 4 * unit * rms(oracle)) dtype = coarsest;
    // An fp64 run that says something else altogether (a constant of the dtype, a cast inside) is no oracle.
    if (rms(own) > 2048 * unit_of(dtype) * rms(oracle) && rms(own) > 0.02 * rms(oracle)) {
      use_oracle = elementwise = false;
      std::fill(own.begin(), own.end(), 0.0);
    }
  }
  Budget budget = budget_of(dtype, elementwise, sum_length);
  if (!use_oracle) budget.relative *= 2, budget.floor *= 2;  // both sides' errors count
  out.relative = budget.relative;
  out.target = use_oracle ? std::move(oracle) : std::move(expected);
  out.bound.resize(n);
  const auto length = static_cast<size_t>(slice_length(shape));
  for (size_t begin = 0; begin < n; begin += length) {
    const size_t count = std::min(length, n - begin);
    const double scale = rms(std::span(out.target).subspan(begin, count));
    const double noise = rms(std::span(own).subspan(begin, count));
    for (size_t i = begin; i < begin + count; ++i) {
      const double reference = std::isfinite(own[i]) ? own[i] : 0;
      const double base = budget.relative * std::fabs(out.target[i]) + budget.floor * scale;
      const double extra = std::max(16 * noise, 2 * reference);
      if (base > 0 && std::isfinite(base)) out.widening = std::max(out.widening, 1 + std::min(extra / base, 64.0));
      out.bound[i] = base + extra;
    }
  }
  return out;
}

}  // namespace kz::keck
