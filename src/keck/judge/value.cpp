// Reading and writing of value structs. What is read is hostile: every count is checked before anything is allocated
// for it.
#include <bit>
#include <cstring>
#include <set>

#include "keck/judge/protocol.h"

namespace kz::keck {
namespace {

__extension__ using Wide = unsigned __int128;  // products of hostile 64-bit numbers

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

tl::unexpected<Error> malformed(std::string what) { return fail("protocol", "malformed value: " + std::move(what)); }

class Reader {
 public:
  Reader(std::string_view bytes, const ValueLimits& limits) : left_(bytes), limits_(limits) {}

  bool done() const { return left_.empty(); }

  template <typename T>
  bool take(T& out) {
    if (left_.size() < sizeof(T)) return false;
    std::memcpy(&out, left_.data(), sizeof(T));
    left_.remove_prefix(sizeof(T));
    return true;
  }

  Status text(std::string& out) {
    uint32_t n = 0;
    if (!take(n) || n > limits_.text_bytes || n > left_.size()) return malformed("a string that is cut or too long");
    out.assign(left_.substr(0, n));
    left_.remove_prefix(n);
    return {};
  }

  Status device(Device& out) {
    uint8_t type = 0;
    if (!take(type) || !take(out.index) || type > static_cast<uint8_t>(DeviceType::kOther))
      return malformed("a device");
    out.type = static_cast<DeviceType>(type);
    return {};
  }

  Status dtype(Dtype& out) {
    uint8_t code = 0;
    if (!take(code) || code >= static_cast<uint8_t>(Dtype::kCount)) return malformed("an unknown dtype");
    out = static_cast<Dtype>(code);
    return {};
  }

  Status tensor(TensorRef& t) {
    uint8_t dims = 0;
    KZ_TRY(dtype(t.dtype));
    KZ_TRY(device(t.device));
    if (!take(t.flags) || !take(dims) || dims > limits_.dims) return malformed("a tensor of too many dimensions");
    if (left_.size() < dims * 16u) return malformed("a cut tensor");
    t.shape.resize(dims);
    t.strides.resize(dims);
    for (auto& extent : t.shape) take(extent);
    for (auto& stride : t.strides) take(stride);
    if (!take(t.address) || !take(t.storage_below) || !take(t.storage_bytes)) return malformed("a cut tensor");
    return check_extent(t);
  }

  Status value(Value& v, int depth) {
    uint8_t kind = 0;
    if (++nodes_ > limits_.nodes) return malformed("too many parts");
    if (!take(kind) || kind > static_cast<uint8_t>(Value::Kind::kTensor)) return malformed("an unknown kind");
    v.kind = static_cast<Value::Kind>(kind);
    switch (v.kind) {
      case Value::Kind::kNone:
        return {};
      case Value::Kind::kBool: {
        uint8_t b = 0;
        if (!take(b) || b > 1) return malformed("a bool");
        v.integer = b;
        return {};
      }
      case Value::Kind::kInt:
        if (!take(v.integer)) return malformed("a cut int");
        return {};
      case Value::Kind::kFloat:
        if (!take(v.real)) return malformed("a cut float");
        return {};
      case Value::Kind::kStr:
        return text(v.text);
      case Value::Kind::kList:
      case Value::Kind::kTuple:
      case Value::Kind::kDict:
        return items(v, depth);
      case Value::Kind::kDtype: {
        Dtype code{};
        KZ_TRY(dtype(code));
        v.integer = static_cast<int64_t>(code);
        return {};
      }
      case Value::Kind::kDevice:
        return device(v.device);
      case Value::Kind::kTensor:
        return tensor(v.tensor);
    }
    return malformed("an unknown kind");
  }

 private:
  Status items(Value& v, int depth) {
    const bool dict = v.kind == Value::Kind::kDict;
    uint32_t n = 0;
    if (depth >= limits_.depth) return malformed("nested too deeply");
    // Every part takes a byte at least, so a count beyond what is left is a lie.
    if (!take(n) || n > limits_.nodes || n > left_.size()) return malformed("a count beyond its frame");
    const size_t parts = dict ? 2 * static_cast<size_t>(n) : n;
    for (size_t i = 0; i < parts; ++i) {
      KZ_TRY(value(v.items.emplace_back(), depth + 1));
      if (dict && i % 2 == 0 && v.items.back().kind > Value::Kind::kStr)
        return malformed("a dict key that is no scalar");
    }
    return {};
  }

  // The product of the shape must fit, no stride be negative, and the last element lie within the claimed storage.
  Status check_extent(const TensorRef& t) const {
    const uint64_t size = dtype_size(t.dtype);
    Wide elements = 1, last = 0;
    bool empty = false;
    for (size_t d = 0; d < t.shape.size(); ++d) {
      if (t.shape[d] < 0 || t.strides[d] < 0) return malformed("a negative shape or stride");
      if (t.shape[d] == 0) empty = true;
      // A shape with a zero may hold absurd other extents; they must still not overflow a product.
      elements *= static_cast<uint64_t>(t.shape[d] == 0 ? 1 : t.shape[d]);
      if (elements * size > limits_.tensor_bytes)
        return fail("protocol", "malformed value: a tensor beyond the size limit");
      if (t.shape[d] > 0) last += static_cast<Wide>(t.shape[d] - 1) * static_cast<uint64_t>(t.strides[d]);
    }
    if (empty) return {};
    if ((last + 1) * size > t.storage_bytes) return malformed("a tensor beyond its storage");
    if (t.address > UINT64_MAX - t.storage_bytes || t.storage_below > t.address)
      return malformed("an impossible address");
    return {};
  }

  std::string_view left_;
  const ValueLimits& limits_;
  uint32_t nodes_ = 0;
};

template <typename T>
void append(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(T));
}

void append_text(std::string& out, std::string_view text) {
  append(out, static_cast<uint32_t>(text.size()));
  out.append(text);
}

void append_tensor(std::string& out, const TensorRef& t) {
  append(out, t.dtype);
  append(out, t.device.type);
  append(out, t.device.index);
  append(out, t.flags);
  append(out, static_cast<uint8_t>(t.shape.size()));
  for (int64_t extent : t.shape) append(out, extent);
  for (int64_t stride : t.strides) append(out, stride);
  append(out, t.address);
  append(out, t.storage_below);
  append(out, t.storage_bytes);
}

}  // namespace

Result<Value> parse_value(std::string_view payload, const ValueLimits& limits) {
  Reader reader(payload, limits);
  Value value;
  KZ_TRY(reader.value(value, 0));
  if (!reader.done()) return malformed("bytes after its end");
  return value;
}

Result<std::vector<NamedTensor>> parse_state(std::string_view payload, const ValueLimits& limits) {
  Reader reader(payload, limits);
  uint32_t n = 0;
  if (!reader.take(n) || n > limits.nodes || n > payload.size()) return malformed("a count beyond its frame");
  std::vector<NamedTensor> state;
  std::set<std::string> names;
  for (uint32_t i = 0; i < n; ++i) {
    NamedTensor& entry = state.emplace_back();
    uint8_t buffer = 0;
    KZ_TRY(reader.text(entry.name));
    if (!reader.take(buffer) || buffer > 1) return malformed("a cut state");
    entry.is_buffer = buffer != 0;
    KZ_TRY(reader.tensor(entry.tensor));
    if (!names.insert(entry.name).second) return malformed("a name twice in a state");
  }
  if (!reader.done()) return malformed("bytes after its end");
  return state;
}

void append_value(std::string& out, const Value& value) {
  append(out, value.kind);
  switch (value.kind) {
    case Value::Kind::kNone:
      return;
    case Value::Kind::kBool:
    case Value::Kind::kDtype:
      return append(out, static_cast<uint8_t>(value.integer));
    case Value::Kind::kInt:
      return append(out, value.integer);
    case Value::Kind::kFloat:
      return append(out, value.real);
    case Value::Kind::kStr:
      return append_text(out, value.text);
    case Value::Kind::kList:
    case Value::Kind::kTuple:
    case Value::Kind::kDict: {
      const size_t n = value.kind == Value::Kind::kDict ? value.items.size() / 2 : value.items.size();
      append(out, static_cast<uint32_t>(n));
      for (const Value& item : value.items) append_value(out, item);
      return;
    }
    case Value::Kind::kDevice:
      append(out, value.device.type);
      return append(out, value.device.index);
    case Value::Kind::kTensor:
      return append_tensor(out, value.tensor);
  }
}

void append_state(std::string& out, const std::vector<NamedTensor>& state) {
  append(out, static_cast<uint32_t>(state.size()));
  for (const NamedTensor& entry : state) {
    append_text(out, entry.name);
    append(out, static_cast<uint8_t>(entry.is_buffer));
    append_tensor(out, entry.tensor);
  }
}

}  // namespace kz::keck
