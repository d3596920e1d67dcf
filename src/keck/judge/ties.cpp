#include "keck/judge/ties.h"

#include <cstring>
#include <set>

#include "keck/judge/tensor.h"

namespace kz::keck {
namespace {

// A view of the index tensor as [outer, k, inner] over a source of [outer, extent, inner].
struct Lines {
  int64_t outer = 1, k = 1, extent = 1, inner = 1;
};

// Whether the index shape is the source's with dimension d replaced (keepdim, topk) or removed.
bool lines_along(const TensorRef& source, const TensorRef& index, size_t d, Lines& out) {
  std::vector<int64_t> kept = source.shape, removed = source.shape;
  removed.erase(removed.begin() + static_cast<std::ptrdiff_t>(d));
  out = {};
  for (size_t i = 0; i < source.shape.size(); ++i) {
    if (i < d) out.outer *= source.shape[i];
    if (i > d) out.inner *= source.shape[i];
  }
  out.extent = source.shape[d];
  if (index.shape == removed) return true;
  if (index.shape.size() != kept.size()) return false;
  out.k = kept[d] = index.shape[d];
  return index.shape == kept;
}

class Gatherer {
 public:
  Gatherer(const Value& expected, const Value& got, const Value& source, const Lines& lines)
      : expected_(expected), got_(got), source_(source), lines_(lines), size_(dtype_size(source.tensor.dtype)) {}

  bool same() const {
    for (int64_t o = 0; o < lines_.outer; ++o) {
      for (int64_t i = 0; i < lines_.inner; ++i) {
        if (!same_line(o, i)) return false;
      }
    }
    return true;
  }

 private:
  bool same_line(int64_t o, int64_t i) const {
    bool changed = false;
    for (int64_t j = 0; j < lines_.k; ++j) {
      const auto at = static_cast<size_t>((o * lines_.k + j) * lines_.inner + i);
      const int64_t want = element_as_int(expected_.tensor.dtype, *expected_.bytes, at);
      const int64_t have = element_as_int(got_.tensor.dtype, *got_.bytes, at);
      if (want == have) continue;
      changed = true;
      if (want < 0 || have < 0 || want >= lines_.extent || have >= lines_.extent) return false;
      if (std::memcmp(value_at(o, want, i), value_at(o, have, i), size_) != 0) return false;
    }
    return !changed || distinct(o, i);
  }

  bool distinct(int64_t o, int64_t i) const {
    std::set<int64_t> named;
    for (int64_t j = 0; j < lines_.k; ++j) {
      const auto at = static_cast<size_t>((o * lines_.k + j) * lines_.inner + i);
      if (!named.insert(element_as_int(got_.tensor.dtype, *got_.bytes, at)).second) return false;
    }
    return true;
  }

  const char* value_at(int64_t o, int64_t place, int64_t i) const {
    const int64_t flat = (o * lines_.extent + place) * lines_.inner + i;
    return source_.bytes->data() + static_cast<size_t>(flat) * size_;
  }

  const Value& expected_;
  const Value& got_;
  const Value& source_;
  Lines lines_;
  size_t size_;
};

// Without a dimension, argmax counts through the flattened source.
bool same_flat(const Value& expected, const Value& got, const Value& source) {
  Lines lines;
  lines.extent = source.tensor.elements();
  return expected.tensor.elements() == 1 && Gatherer(expected, got, source, lines).same();
}

}  // namespace

bool same_by_gathered_value(const Value& expected, const Value& got, const std::vector<const Value*>& sources) {
  const Dtype dtype = expected.tensor.dtype;
  if (dtype != Dtype::kInt64 && dtype != Dtype::kInt32) return false;
  for (const Value* source : sources) {
    if (!source->bytes) continue;
    if (same_flat(expected, got, *source)) return true;
    for (size_t d = 0; d < source->tensor.shape.size(); ++d) {
      Lines lines;
      if (lines_along(source->tensor, expected.tensor, d, lines) && Gatherer(expected, got, *source, lines).same())
        return true;
    }
  }
  return false;
}

}  // namespace kz::keck
