#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include "base/random.h"
#include "keck/judge/handover.h"
#include "keck/judge/tensor.h"

namespace kz::keck {
namespace {

TensorRef tensor_of(Dtype dtype, std::vector<int64_t> shape) {
  TensorRef t;
  t.dtype = dtype;
  t.strides = row_major_strides(shape);
  t.shape = std::move(shape);
  t.address = 1 << 20;
  t.storage_bytes = extent_bytes(t);
  return t;
}

// Any value of the protocol, up to a depth.
Value arbitrary(Rng& rng, int depth) {
  Value v;
  v.kind = static_cast<Value::Kind>(rng.below(depth > 0 ? 11 : 5));
  switch (v.kind) {
    case Value::Kind::kBool:
      v.integer = static_cast<int64_t>(rng.below(2));
      break;
    case Value::Kind::kInt:
      v.integer = static_cast<int64_t>(rng());
      break;
    case Value::Kind::kFloat:
      v.real = rng.normal();
      break;
    case Value::Kind::kStr:
      v.text = std::string(rng.below(20), 'a');
      break;
    case Value::Kind::kDtype:
      v.integer = static_cast<int64_t>(rng.below(13));
      break;
    case Value::Kind::kDevice:
      v.device = {DeviceType::kCuda, 3};
      break;
    case Value::Kind::kTensor:
      v.tensor = tensor_of(static_cast<Dtype>(rng.below(13)), {static_cast<int64_t>(rng.below(5)), 3});
      break;
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      for (uint64_t i = rng.below(4); i > 0; --i) v.items.push_back(arbitrary(rng, depth - 1));
      break;
    case Value::Kind::kDict:
      for (uint64_t i = rng.below(4); i > 0; --i) {
        v.items.push_back(arbitrary(rng, 0));
        v.items.push_back(arbitrary(rng, depth - 1));
      }
      break;
    default:
      break;
  }
  return v;
}

RC_GTEST_PROP(Value, WhatIsWrittenIsRead, (uint64_t seed)) {
  Rng rng(seed);
  const Value value = arbitrary(rng, 4);
  std::string bytes, again;
  append_value(bytes, value);
  const auto read = parse_value(bytes);
  RC_ASSERT(read.has_value());
  append_value(again, *read);
  RC_ASSERT(bytes == again);
}

// Damage never crashes the reader, and a cut value is never taken for a whole one.
RC_GTEST_PROP(Value, DamageIsAnErrorOrAnotherValue, (uint64_t seed)) {
  Rng rng(seed);
  std::string bytes;
  append_value(bytes, arbitrary(rng, 4));
  RC_ASSERT(!parse_value(std::string_view(bytes).substr(0, rng.below(bytes.size()))));
  bytes[rng.below(bytes.size())] = static_cast<char>(rng());
  (void)parse_value(bytes);
  RC_ASSERT(!parse_value(bytes + "x") || !parse_value(bytes));
}

RC_GTEST_PROP(Value, NoiseIsSafe, (const std::string& noise)) {
  (void)parse_value(noise);
  (void)parse_state(noise);
}

TEST(Value, StateRefusesANameTwice) {
  NamedTensor entry{"w", false, tensor_of(Dtype::kFloat32, {2}), nullptr};
  std::string bytes;
  append_state(bytes, {entry});
  EXPECT_TRUE(parse_state(bytes));
  bytes.clear();
  append_state(bytes, {entry, entry});
  EXPECT_FALSE(parse_state(bytes));
}

RC_GTEST_PROP(Tensor, ScatterIsTheInverseOfGather, (uint64_t seed)) {
  Rng rng(seed);
  TensorRef t =
      tensor_of(Dtype::kFloat32, {static_cast<int64_t>(1 + rng.below(4)), static_cast<int64_t>(1 + rng.below(5)),
                                  static_cast<int64_t>(1 + rng.below(3))});
  if (rng.below(2)) std::swap(t.shape[0], t.shape[2]), std::swap(t.strides[0], t.strides[2]);
  if (rng.below(2)) {
    for (auto& stride : t.strides) stride *= 2;
  }
  std::string packed(static_cast<size_t>(t.elements()) * 4, '\0');
  for (char& c : packed) c = static_cast<char>(rng());
  std::string raw(extent_bytes(t), '\0');
  scatter(t, packed, raw.data());
  RC_ASSERT(gather(t, raw) == packed);
}

TEST(Tensor, HalvesRoundLikeTheHardware) {
  const struct {
    double value;
    uint16_t half;
  } table[] = {{0, 0},       {1, 0x3c00},        {-2, 0xc000},          {65504, 0x7bff},          {65520, 0x7c00},
               {5.96e-8, 1}, {6.1035e-5, 0x400}, {1 + 0x1p-11, 0x3c00}, {1 + 3 * 0x1p-11, 0x3c02}};
  for (const auto& row : table) {
    uint16_t bits = 0;
    store_double(Dtype::kFloat16, reinterpret_cast<char*>(&bits), row.value);
    EXPECT_EQ(bits, row.half) << row.value;
  }
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {  // every finite half survives the way to double and back
    const auto half = static_cast<uint16_t>(bits);
    const double wide = element_as_double(Dtype::kFloat16, {reinterpret_cast<const char*>(&half), 2}, 0);
    uint16_t back = 0;
    store_double(Dtype::kFloat16, reinterpret_cast<char*>(&back), wide);
    ASSERT_EQ(back, half);
  }
}

TEST(Tensor, DenseStridesKeepPermutationsOnly) {
  TensorRef t = tensor_of(Dtype::kFloat32, {2, 3, 4, 5});
  t.strides = {60, 1, 15, 3};  // channels last
  EXPECT_EQ(dense_strides(t), t.strides);
  t.strides = {120, 2, 30, 6};  // every second element
  EXPECT_EQ(dense_strides(t), row_major_strides(t.shape));
  t.strides = {0, 1, 15, 3};  // expanded
  EXPECT_EQ(dense_strides(t), row_major_strides(t.shape));
}

TEST(Handover, SeesWritesInsideAndOutside) {
  Value x;
  x.kind = Value::Kind::kTensor;
  x.tensor = tensor_of(Dtype::kFloat32, {8});
  x.bytes = std::make_shared<const std::string>(32, '\x01');
  Value arguments;
  arguments.kind = Value::Kind::kList;
  arguments.items = {x, x};
  const Handover handover(arguments);
  const auto touch = [&](off_t at) {
    const auto memory = handover.open();
    EXPECT_TRUE(memory);
    if (at >= 0) {
      EXPECT_EQ(::pwrite(memory->get(), "z", 1, at), 1);
    }
    Value after = arguments;
    const auto seen = handover.read_back(memory->get(), after);
    EXPECT_TRUE(seen);
    return std::pair(*seen, after);
  };
  EXPECT_FALSE(touch(-1).first.touched);
  const auto [inside, after] = touch(4096 + 31);
  EXPECT_TRUE(inside.touched && !inside.out_of_bounds);
  EXPECT_EQ(after.items[0].bytes->back(), 'z');
  EXPECT_EQ(*after.items[1].bytes, *x.bytes);
  for (off_t at : {0, 4095, 4096 + 32, 8192, 3 * 4096 + 100, 4 * 4096 + 32})
    EXPECT_TRUE(touch(at).first.out_of_bounds) << at;
}

}  // namespace
}  // namespace kz::keck
