#include "keck/judge/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "keck/judge/tensor.h"

namespace kz::keck {
namespace {

constexpr double kOutlier = 128;  // beyond where exp overflows fp32, for data of order one
constexpr size_t kSmallest = 8;   // fewer elements are more likely a parameter than data

bool symmetric(const TensorRef& t, const std::vector<double>& x) {
  const size_t dims = t.shape.size();
  if (dims < 2 || t.shape[dims - 1] != t.shape[dims - 2] || t.shape[dims - 1] < 2) return false;
  const auto n = static_cast<size_t>(t.shape[dims - 1]);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (x[i * n + j] != x[j * n + i]) return false;
    }
  }
  return true;
}

// Data in general position: nothing about which places hold which values seems to be meant.
bool is_free(const TensorRef& t, const std::vector<double>& x) {
  if (!is_floating(t.dtype) || x.size() < kSmallest) return false;
  if (!std::all_of(x.begin(), x.end(), [](double v) { return std::isfinite(v); })) return false;
  const auto zeros = static_cast<size_t>(std::count(x.begin(), x.end(), 0.0));
  if (zeros * 50 > x.size()) return false;
  if (std::is_sorted(x.begin(), x.end()) || std::is_sorted(x.rbegin(), x.rend())) return false;
  const size_t step = std::max<size_t>(x.size() / 256, 1);
  std::set<double> seen;
  size_t looked = 0;
  for (size_t i = 0; i < x.size(); i += step, ++looked) seen.insert(x[i]);
  return seen.size() * 10 >= looked * 7 && !symmetric(t, x);
}

void shuffle_within_range(std::vector<double>& x, Rng& rng) {
  rng.shuffle(x);
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const double centre = *low <= 0 && *high >= 0 ? 0 : (*low + *high) / 2;
  const double scale = 0.5 + 0.5 * rng.uniform();
  for (double& v : x) v = centre + scale * (v - centre);
}

// Data of both signs get outliers of both, whatever the seed: an exp without its maximum overflows at one sign alone.
// Many of them in one tensor only: where two products of outliers cancel in a sum, what is left is all rounding error.
void plant_outliers(std::vector<double>& x, bool many, Rng& rng) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const bool negative = *low < 0, positive = *high > 0;
  const double largest = std::max(std::fabs(*low), std::fabs(*high));
  const size_t count = std::max<size_t>(negative && positive ? 2 : 1, many ? x.size() / 256 : 0);
  for (size_t i = 0; i < count; ++i) {
    size_t place = rng.below(x.size());
    while (std::fabs(x[place]) > largest) place = (place + 1) % x.size();  // taken
    const bool below_zero = negative && (!positive || i % 2 == 1);
    x[place] = below_zero ? -kOutlier * largest : kOutlier * largest;
  }
}

// One unit in the last place of the tensor's own dtype, either way or not at all.
void move_by_ulp(Dtype dtype, std::vector<double>& x, Rng& rng) {
  const int digits = dtype == Dtype::kFloat16 ? 11 : dtype == Dtype::kBfloat16 ? 8 : dtype == Dtype::kFloat32 ? 24 : 53;
  for (double& v : x) {
    if (v == 0 || !std::isfinite(v)) continue;
    v += std::ldexp(1.0, std::ilogb(v) + 1 - digits) * (static_cast<double>(rng.below(3)) - 1);
  }
}

std::string packed(Dtype dtype, const std::vector<double>& x) {
  const size_t size = dtype_size(dtype);
  std::string bytes(x.size() * size, '\0');
  for (size_t i = 0; i < x.size(); ++i) store_double(dtype, bytes.data() + i * size, x[i]);
  return bytes;
}

}  // namespace

std::optional<Value> with_other_values(const Value& arguments, OtherValues how, Rng& rng) {
  Value changed = arguments;
  bool any = false;
  for (Value* v : tensors_of(changed)) {
    if (!is_floating(v->tensor.dtype)) continue;
    std::vector<double> x = to_doubles(v->tensor.dtype, *v->bytes);
    if (how == OtherValues::kUlp) {
      move_by_ulp(v->tensor.dtype, x, rng);
    } else if (!is_free(v->tensor, x)) {
      continue;
    } else if (how == OtherValues::kShuffled) {
      shuffle_within_range(x, rng);
    } else {
      plant_outliers(x, /*many=*/!any, rng);
    }
    any = true;
    v->bytes = std::make_shared<const std::string>(packed(v->tensor.dtype, x));
  }
  if (!any) return std::nullopt;
  return changed;
}

std::vector<bool> free_tensors(const Value& arguments) {
  std::vector<bool> free;
  for (const Value* v : tensors_of(arguments)) {
    free.push_back(is_floating(v->tensor.dtype) && is_free(v->tensor, to_doubles(v->tensor.dtype, *v->bytes)));
  }
  return free;
}

bool swap_some(Value& arguments, const std::vector<bool>& free, Rng& rng) {
  bool any = false;
  const std::vector<Value*> tensors = tensors_of(arguments);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!free.at(i)) continue;
    const size_t size = dtype_size(tensors[i]->tensor.dtype), n = tensors[i]->bytes->size() / size;
    std::string bytes = *tensors[i]->bytes;
    for (int swaps = 0; swaps < 16; ++swaps) {
      char* a = bytes.data() + rng.below(n) * size;
      char* b = bytes.data() + rng.below(n) * size;
      any = any || std::memcmp(a, b, size) != 0;
      if (a != b) std::swap_ranges(a, a + size, b);
    }
    tensors[i]->bytes = std::make_shared<const std::string>(std::move(bytes));
  }
  return any;
}

}  // namespace kz::keck
