#include "keck/judge/null_candidates.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "keck/judge/tensor.h"

namespace kz::keck {
namespace {

// A copy of `value` with every tensor's bytes (and every float) replaced.
Value with_bytes(const Value& value, const std::function<std::string(const Value&)>& make) {
  Value out = value;
  for (Value* v : tensors_of(out)) {
    if (v->bytes) v->bytes = std::make_shared<const std::string>(make(*v));
  }
  return out;
}

std::string constant(const Value& v) {
  const std::vector<double> x = to_doubles(v.tensor.dtype, *v.bytes);
  double sum = 0;
  size_t n = 0;
  for (double e : x) {
    if (std::isfinite(e)) sum += e, ++n;
  }
  const size_t size = dtype_size(v.tensor.dtype);
  std::string bytes(v.bytes->size(), '\0');
  const double mean = n ? sum / static_cast<double>(n) : 0;
  for (size_t i = 0; i < x.size(); ++i) store_double(v.tensor.dtype, bytes.data() + i * size, mean);
  return bytes;
}

std::string every_second(const Value& v) {
  const size_t size = dtype_size(v.tensor.dtype);
  std::string bytes = *v.bytes;
  for (size_t at = size; at < bytes.size(); at += 2 * size)
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size, '\0');
  return bytes;
}

}  // namespace

std::vector<NullCandidate> null_candidates(const Value& expected, const Value& inputs) {
  std::vector<NullCandidate> out;
  const std::vector<const Value*> outputs = tensors_of(expected);
  if (outputs.empty()) return out;
  out.push_back({"zeros", with_bytes(expected, [](const Value& v) { return std::string(v.bytes->size(), '\0'); })});
  // A single number is its own mean.
  const bool several =
      std::any_of(outputs.begin(), outputs.end(), [](const Value* v) { return v->tensor.elements() > 1; });
  if (several) {
    out.push_back({"a constant", with_bytes(expected, constant)});
    out.push_back({"every second element", with_bytes(expected, every_second)});
  }
  bool copied = false;
  Value copy = with_bytes(expected, [&](const Value& v) {
    for (const Value* input : tensors_of(inputs)) {
      if (input->bytes && input->tensor.dtype == v.tensor.dtype && input->tensor.elements() == v.tensor.elements()) {
        copied = true;
        return *input->bytes;
      }
    }
    return *v.bytes;
  });
  if (copied) out.push_back({"a copy of an input", std::move(copy)});
  return out;
}

}  // namespace kz::keck
