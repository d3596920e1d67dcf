#include "keck/judge/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace kz::keck {
namespace {

float half_to_float(uint16_t h) {
  const int exponent = (h >> 10) & 31;
  const int mantissa = h & 1023;
  const float sign = h & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

uint16_t float_to_half(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double a = std::fabs(value);
  if (std::isnan(a)) return 0x7e00;
  if (a >= 65520) return sign | 0x7c00;
  if (a < 6.103515625e-05) return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(a, 24)));
  int exponent = 0;
  const double fraction = std::frexp(a, &exponent);                                  // in [0.5, 1)
  const auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));  // in [1024, 2048]
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + (mantissa - 1024));
}

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T, typename F>
void widen(std::string_view bytes, std::vector<double>& out, F convert) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = convert(load<T>(bytes.data() + i * sizeof(T)));
}

template <typename T>
void widen(std::string_view bytes, std::vector<double>& out) {
  widen<T>(bytes, out, [](T x) { return static_cast<double>(x); });
}

double bfloat16_to_double(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

// Calls visit(offset in elements) for every innermost row, in logical order.
template <typename F>
void each_row(const TensorRef& t, F visit) {
  const size_t outer = t.shape.empty() ? 0 : t.shape.size() - 1;
  std::vector<int64_t> index(outer, 0);
  int64_t offset = 0;
  while (true) {
    visit(offset);
    size_t d = outer;
    while (d > 0) {
      --d;
      offset += t.strides[d];
      if (++index[d] < t.shape[d]) break;
      offset -= t.strides[d] * t.shape[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (outer == 0) return;
  }
}

template <bool kGather>
void move_elements(const TensorRef& t, const char* from, char* to) {
  const auto size = static_cast<int64_t>(dtype_size(t.dtype));
  const int64_t row = t.shape.empty() ? 1 : t.shape.back();
  const int64_t step = t.shape.empty() ? 1 : t.strides.back();
  int64_t packed = 0;
  each_row(t, [&](int64_t offset) {
    if (step == 1) {
      std::memcpy(to + (kGather ? packed : offset) * size, from + (kGather ? offset : packed) * size, row * size);
      packed += row;
      return;
    }
    for (int64_t i = 0; i < row; ++i, ++packed) {
      const int64_t strided = offset + i * step;
      std::memcpy(to + (kGather ? packed : strided) * size, from + (kGather ? strided : packed) * size, size);
    }
  });
}

template <typename V, typename Out>
void collect(V& value, Out& out) {
  if (value.kind == Value::Kind::kTensor) out.push_back(&value);
  for (auto& item : value.items) collect(item, out);
}

}  // namespace

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<int64_t>(shape[d], 1);
  return strides;
}

bool is_contiguous(const TensorRef& t) {
  int64_t expected = 1;
  for (size_t d = t.shape.size(); d-- > 0;) {
    if (t.shape[d] == 1) continue;
    if (t.strides[d] != expected) return false;
    expected *= t.shape[d];
  }
  return true;
}

uint64_t extent_bytes(const TensorRef& t) {
  uint64_t last = 0;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (t.shape[d] == 0) return 0;
    last += static_cast<uint64_t>(t.shape[d] - 1) * static_cast<uint64_t>(t.strides[d]);
  }
  return (last + 1) * dtype_size(t.dtype);
}

std::string gather(const TensorRef& t, std::string_view raw) {
  const size_t size = static_cast<size_t>(t.elements()) * dtype_size(t.dtype);
  if (size == 0) return {};
  if (is_contiguous(t)) return std::string(raw.substr(0, size));
  std::string out(size, '\0');
  move_elements<true>(t, raw.data(), out.data());
  return out;
}

void scatter(const TensorRef& t, std::string_view contiguous, char* raw) {
  if (contiguous.empty()) return;
  if (is_contiguous(t)) {
    std::memcpy(raw, contiguous.data(), contiguous.size());
  } else {
    move_elements<false>(t, contiguous.data(), raw);
  }
}

std::vector<int64_t> dense_strides(const TensorRef& t) {
  std::vector<size_t> order(t.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return t.strides[a] < t.strides[b]; });
  int64_t expected = 1;
  for (size_t d : order) {
    if (t.shape[d] == 1) continue;
    if (t.strides[d] != expected) return row_major_strides(t.shape);
    expected *= t.shape[d];
  }
  return t.strides;
}

std::vector<double> to_doubles(Dtype dtype, std::string_view bytes) {
  std::vector<double> out(bytes.size() / dtype_size(dtype));
  switch (dtype) {
    case Dtype::kBool:
      widen<uint8_t>(bytes, out, [](uint8_t x) { return x ? 1.0 : 0.0; });
      break;
    case Dtype::kUint8:
      widen<uint8_t>(bytes, out);
      break;
    case Dtype::kInt8:
      widen<int8_t>(bytes, out);
      break;
    case Dtype::kInt16:
      widen<int16_t>(bytes, out);
      break;
    case Dtype::kInt32:
      widen<int32_t>(bytes, out);
      break;
    case Dtype::kInt64:
      widen<int64_t>(bytes, out);
      break;
    case Dtype::kUint16:
      widen<uint16_t>(bytes, out);
      break;
    case Dtype::kUint32:
      widen<uint32_t>(bytes, out);
      break;
    case Dtype::kUint64:
      widen<uint64_t>(bytes, out);
      break;
    case Dtype::kFloat16:
      widen<uint16_t>(bytes, out, [](uint16_t x) { return double{half_to_float(x)}; });
      break;
    case Dtype::kBfloat16:
      widen<uint16_t>(bytes, out, bfloat16_to_double);
      break;
    case Dtype::kFloat32:
      widen<float>(bytes, out);
      break;
    case Dtype::kFloat64:
      widen<double>(bytes, out);
      break;
    case Dtype::kCount:
      break;
  }
  return out;
}

double element_as_double(Dtype dtype, std::string_view bytes, size_t index) {
  const size_t size = dtype_size(dtype);
  return to_doubles(dtype, bytes.substr(index * size, size)).at(0);
}

int64_t element_as_int(Dtype dtype, std::string_view bytes, size_t index) {
  const char* at = bytes.data() + index * dtype_size(dtype);
  switch (dtype) {
    case Dtype::kInt64:
      return load<int64_t>(at);
    case Dtype::kUint64:
      return static_cast<int64_t>(load<uint64_t>(at));
    default:
      return static_cast<int64_t>(element_as_double(dtype, bytes, index));
  }
}

void store_double(Dtype dtype, char* at, double value) {
  const auto put = [at](auto x) { std::memcpy(at, &x, sizeof x); };
  switch (dtype) {
    case Dtype::kFloat16:
      return put(float_to_half(value));
    case Dtype::kBfloat16:
      return put(float_to_bfloat16(static_cast<float>(value)));
    case Dtype::kFloat32:
      return put(static_cast<float>(value));
    case Dtype::kFloat64:
      return put(value);
    case Dtype::kBool:
      return put(static_cast<uint8_t>(value != 0));
    case Dtype::kUint8:
      return put(static_cast<uint8_t>(value));
    case Dtype::kInt8:
      return put(static_cast<int8_t>(value));
    case Dtype::kInt16:
      return put(static_cast<int16_t>(value));
    case Dtype::kUint16:
      return put(static_cast<uint16_t>(value));
    case Dtype::kInt32:
      return put(static_cast<int32_t>(value));
    case Dtype::kUint32:
      return put(static_cast<uint32_t>(value));
    case Dtype::kInt64:
      return put(static_cast<int64_t>(value));
    case Dtype::kUint64:
      return put(static_cast<uint64_t>(value));
    case Dtype::kCount:
      return;
  }
}

std::vector<int64_t> unravel(std::span<const int64_t> shape, int64_t flat) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

std::vector<Value*> tensors_of(Value& value) {
  std::vector<Value*> out;
  collect(value, out);
  return out;
}

std::vector<const Value*> tensors_of(const Value& value) {
  std::vector<const Value*> out;
  collect(value, out);
  return out;
}

std::string describe(const TensorRef& t) {
  std::string out(dtype_name(t.dtype));
  out += '[';
  for (size_t d = 0; d < t.shape.size(); ++d) out += (d ? "," : "") + std::to_string(t.shape[d]);
  return out + ']';
}

}  // namespace kz::keck
