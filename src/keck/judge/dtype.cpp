#include <array>

#include "keck/judge/protocol.h"

namespace kz::keck {
namespace {

struct Entry {
  size_t size;
  std::string_view name;
  bool floating;
};

constexpr std::array<Entry, static_cast<size_t>(Dtype::kCount)> kTable{{
    {1, "bool", false},
    {1, "uint8", false},
    {1, "int8", false},
    {2, "int16", false},
    {4, "int32", false},
    {8, "int64", false},
    {2, "float16", true},
    {2, "bfloat16", true},
    {4, "float32", true},
    {8, "float64", true},
    {2, "uint16", false},
    {4, "uint32", false},
    {8, "uint64", false},
}};

}  // namespace

size_t dtype_size(Dtype dtype) { return kTable[static_cast<size_t>(dtype)].size; }
std::string_view dtype_name(Dtype dtype) { return kTable[static_cast<size_t>(dtype)].name; }
bool is_floating(Dtype dtype) { return kTable[static_cast<size_t>(dtype)].floating; }

int64_t TensorRef::elements() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

}  // namespace kz::keck
