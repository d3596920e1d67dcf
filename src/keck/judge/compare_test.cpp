#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
#include "keck/judge/compare.h"
#include "keck/judge/tensor.h"
#include "keck/judge/transform.h"

namespace kz::keck {
namespace {

Value tensor(Dtype dtype, std::vector<int64_t> shape, const std::vector<double>& x) {
  Value v;
  v.kind = Value::Kind::kTensor;
  v.tensor.dtype = dtype;
  v.tensor.strides = row_major_strides(shape);
  v.tensor.shape = std::move(shape);
  std::string bytes(x.size() * dtype_size(dtype), '\0');
  for (size_t i = 0; i < x.size(); ++i) store_double(dtype, bytes.data() + i * dtype_size(dtype), x[i]);
  v.bytes = std::make_shared<const std::string>(std::move(bytes));
  return v;
}

Value of(Value::Kind kind, std::vector<Value> items = {}) {
  Value v;
  v.kind = kind;
  v.items = std::move(items);
  return v;
}
Value integer(int64_t i) {
  Value v = of(Value::Kind::kInt);
  v.integer = i;
  return v;
}
Value text(std::string s) {
  Value v = of(Value::Kind::kStr);
  v.text = std::move(s);
  return v;
}

std::vector<double> normal(size_t n, uint64_t seed, double scale = 1) {
  Rng rng(seed);
  std::vector<double> x(n);
  for (double& v : x) v = scale * rng.normal();
  return x;
}

std::vector<double> changed(std::vector<double> x, const std::function<double(double)>& f) {
  for (double& v : x) v = f(v);
  return x;
}

Comparison strict(const Value& expected, const Value* oracle, const Value& got, int64_t terms = 4096) {
  CompareOptions options;
  options.sum_length = terms;
  return compare(expected, oracle, got, {}, options);
}

// The reference rounds the truth, the candidate is another function of it.
Comparison against_truth(Dtype dtype, const std::vector<double>& truth, const std::function<double(double)>& candidate,
                         int64_t terms = 4096) {
  const auto n = static_cast<int64_t>(truth.size());
  const Value oracle = tensor(Dtype::kFloat64, {n}, truth);
  return strict(tensor(dtype, {n}, truth), &oracle, tensor(dtype, {n}, changed(truth, candidate)), terms);
}

TEST(Compare, StructureMustBeTheSame) {
  const Value t = tensor(Dtype::kFloat32, {2}, {1, 2});
  using K = Value::Kind;
  const struct {
    const char* name;
    Value expected, got;
    const char* reason;
  } table[] = {
      {"same", t, t, ""},
      {"none", of(K::kNone), of(K::kNone), ""},
      {"none for a tensor", t, of(K::kNone), "structure"},
      {"list for a tuple", of(K::kTuple, {t}), of(K::kList, {t}), "structure"},
      {"one too few", of(K::kTuple, {t, t}), of(K::kTuple, {t}), "structure"},
      {"empty", of(K::kTuple), of(K::kTuple), ""},
      {"dicts in another order", of(K::kDict, {text("a"), t, text("b"), integer(1)}),
       of(K::kDict, {text("b"), integer(1), text("a"), t}), ""},
      {"a key missing", of(K::kDict, {text("a"), t}), of(K::kDict, {text("b"), t}), "structure"},
      {"another integer", integer(3), integer(4), "wrong_values"},
      {"another string", text("x"), text("y"), "wrong_values"},
      {"another shape", t, tensor(Dtype::kFloat32, {2, 1}, {1, 2}), "shape"},
      {"another dtype", t, tensor(Dtype::kFloat64, {2}, {1, 2}), "dtype"},
      {"empty tensors", tensor(Dtype::kFloat32, {0, 3}, {}), tensor(Dtype::kFloat32, {0, 3}, {}), ""},
      {"nested", of(K::kList, {of(K::kTuple, {t, integer(1)})}), of(K::kList, {of(K::kTuple, {t, integer(2)})}),
       "wrong_values"},
  };
  for (const auto& row : table) {
    const Comparison c = strict(row.expected, nullptr, row.got);
    EXPECT_EQ(c.reason, row.reason) << row.name << ": " << c.message;
    EXPECT_EQ(c.equal, std::string(row.reason).empty()) << row.name;
  }
}

TEST(Compare, NonFiniteMustBeAtTheSamePlaces) {
  const double inf = INFINITY, nan = NAN;
  const struct {
    std::vector<double> expected, got;
    bool equal;
  } table[] = {
      {{1, nan}, {1, nan}, true},   {{1, nan}, {1, 2}, false},    {{1, 2}, {1, nan}, false},
      {{1, inf}, {1, inf}, true},   {{1, inf}, {1, -inf}, false}, {{1, inf}, {1, 3e38}, false},
      {{1, 3e38}, {1, inf}, false}, {{nan, 1}, {1, nan}, false},
  };
  for (const auto& row : table) {
    Value e = tensor(Dtype::kFloat32, {2}, row.expected), g = tensor(Dtype::kFloat32, {2}, row.got);
    EXPECT_EQ(strict(e, nullptr, g).equal, row.equal);
  }
  const Value e = tensor(Dtype::kFloat32, {1}, {nan});
  CompareOptions loose;
  loose.check = Check::kKernelBench;
  EXPECT_FALSE(compare(e, nullptr, e, {}, loose).equal) << "allclose: NaN equals nothing";
}

// Rounding at random places of an fp32 computation is right; anything as coarse as a half is not.
TEST(Compare, PrecisionBudget) {
  const auto truth = normal(4096, 1);
  Rng rng(2);
  const auto noise = [&rng](double unit, double times) {
    return [&rng, unit, times](double v) { return v * (1 + unit * times * rng.normal()); };
  };
  const double f32 = 0x1p-24, f16 = 0x1p-11, bf16 = 0x1p-8;
  EXPECT_TRUE(against_truth(Dtype::kFloat32, truth, noise(f32, 4)).equal);
  EXPECT_FALSE(against_truth(Dtype::kFloat32, truth, noise(f16, 1)).equal) << "TF32 or half inside an fp32 task";
  EXPECT_FALSE(against_truth(Dtype::kFloat32, truth, noise(bf16, 1)).equal);
  EXPECT_TRUE(against_truth(Dtype::kFloat16, truth, noise(f16, 0.8)).equal);
  EXPECT_FALSE(against_truth(Dtype::kFloat16, truth, noise(0x1p-4, 1)).equal) << "fp8 inside an fp16 task";
  EXPECT_TRUE(against_truth(Dtype::kBfloat16, truth, noise(bf16, 0.8)).equal);
  EXPECT_FALSE(against_truth(Dtype::kBfloat16, truth, noise(0x1p-3, 1)).equal);
  EXPECT_TRUE(against_truth(Dtype::kFloat64, truth, noise(0x1p-53, 100)).equal);
  EXPECT_FALSE(against_truth(Dtype::kFloat64, truth, noise(f32, 1)).equal) << "fp32 inside an fp64 task";
}

TEST(Compare, ZerosNeverPassForSmallValues) {
  for (double scale : {1.0, 1e-6, 1e-20, 1e-37}) {
    for (Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16, Dtype::kFloat64}) {
      EXPECT_FALSE(against_truth(dtype, normal(1024, 3, scale), [](double) { return 0.0; }).equal) << scale;
      EXPECT_TRUE(against_truth(dtype, normal(1024, 3, scale), [](double v) { return v; }).equal) << scale;
    }
  }
  // A small row beside large ones is held to its own size.
  std::vector<double> rows = normal(128, 4);
  for (size_t i = 64; i < 128; ++i) rows[i] *= 1e-6;
  std::vector<double> wrong = rows;
  std::fill(wrong.begin() + 64, wrong.end(), 0.0);
  const Value oracle = tensor(Dtype::kFloat64, {2, 64}, rows);
  EXPECT_FALSE(strict(tensor(Dtype::kFloat32, {2, 64}, rows), &oracle, tensor(Dtype::kFloat32, {2, 64}, wrong)).equal);
}

// fp32 sums in another order than the reference's.
TEST(Compare, AnotherOrderOfSummationIsRight) {
  for (size_t terms : {16u, 1024u, 65536u, 1u << 20}) {
    for (double offset : {0.0, 1.0}) {
      std::vector<double> truth, blocked, running;
      for (uint64_t row = 0; row < 4; ++row) {
        const auto x = changed(normal(terms, 10 + row), [&](double v) { return static_cast<float>(v + offset); });
        truth.push_back(std::accumulate(x.begin(), x.end(), 0.0));
        float run = 0, total = 0, block = 0;
        for (size_t i = 0; i < terms; ++i) {
          run += static_cast<float>(x[i]);
          block += static_cast<float>(x[i]);
          if (i % 64 == 63) total += block, block = 0;
        }
        running.push_back(run);
        blocked.push_back(total + block);
      }
      const Value oracle = tensor(Dtype::kFloat64, {4}, truth);
      const Comparison c = strict(tensor(Dtype::kFloat32, {4}, blocked), &oracle, tensor(Dtype::kFloat32, {4}, running),
                                  static_cast<int64_t>(4 * terms));
      EXPECT_TRUE(c.equal) << terms << " terms from " << offset << ": " << c.scaled << " of " << c.tolerance;
    }
  }
}

TEST(Compare, ReportsTheFirstMismatchAndTheShare) {
  auto x = normal(12, 5), y = x;
  y[7] += 1, y[11] += 1;
  const Comparison c = strict(of(Value::Kind::kTuple, {integer(1), tensor(Dtype::kFloat32, {3, 4}, x)}), nullptr,
                              of(Value::Kind::kTuple, {integer(1), tensor(Dtype::kFloat32, {3, 4}, y)}));
  ASSERT_TRUE(c.first_mismatch);
  EXPECT_EQ(c.first_mismatch->output, 1);
  EXPECT_EQ(c.first_mismatch->index, (std::vector<int64_t>{1, 3}));
  EXPECT_NEAR(c.first_mismatch->got - c.first_mismatch->expected, 1, 1e-6);
  EXPECT_DOUBLE_EQ(c.wrong_share, 2.0 / 12);
  EXPECT_GT(c.scaled, c.tolerance);
  EXPECT_NEAR(c.max_abs_error, 1, 1e-6);
}

TEST(Compare, PublishedChecks) {
  const struct {
    Check check;
    Dtype dtype;
    double expected, got;
    bool equal;
  } table[] = {
      {Check::kKernelBench, Dtype::kFloat32, 1, 1.00019, true},
      {Check::kKernelBench, Dtype::kFloat32, 1, 1.00021, false},
      {Check::kKernelBench, Dtype::kFloat16, 1, 1.015, true},
      {Check::kKernelBench, Dtype::kBfloat16, 1, 1.05, false},
      {Check::kKernelBench, Dtype::kFloat32, 5e-5, 0, true},
      {Check::kKeckV0, Dtype::kFloat32, 1, 1.015, true},
      {Check::kKeckV0, Dtype::kFloat32, 1, 1.025, false},
      {Check::kStrict, Dtype::kFloat32, 5e-5, 0, false},
      {Check::kStrict, Dtype::kFloat32, 1, 1.0002, false},
  };
  for (const auto& row : table) {
    CompareOptions options;
    options.check = row.check;
    const Comparison c =
        compare(tensor(row.dtype, {1}, {row.expected}), nullptr, tensor(row.dtype, {1}, {row.got}), {}, options);
    EXPECT_EQ(c.equal, row.equal) << row.expected << " " << row.got;
    EXPECT_EQ(c.scaled <= c.tolerance, row.equal);
  }
}

TEST(Compare, IntegersAreExact) {
  const double big = 9007199254740992.0;  // 2^53: a double cannot tell it from its neighbour
  Value e = tensor(Dtype::kInt64, {1}, {big});
  std::string bytes = *e.bytes;
  bytes[0] = 1;
  Value g = e;
  g.bytes = std::make_shared<const std::string>(bytes);
  EXPECT_FALSE(strict(e, nullptr, g).equal);
  EXPECT_FALSE(strict(tensor(Dtype::kBool, {2}, {1, 0}), nullptr, tensor(Dtype::kBool, {2}, {1, 1})).equal);
}

TEST(Compare, TiesAreRightByGatheredValue) {
  const std::vector<Value> inputs = {tensor(Dtype::kFloat32, {2, 4}, {5, 1, 5, 0, 2, 7, 7, 7})};
  const auto check = [&](const Value& expected, const Value& got) {
    return compare(expected, nullptr, got, inputs, {}).equal;
  };
  const auto index = [](std::vector<int64_t> shape, const std::vector<double>& x) {
    return tensor(Dtype::kInt64, std::move(shape), x);
  };
  EXPECT_TRUE(check(index({2}, {0, 1}), index({2}, {2, 3})));
  EXPECT_FALSE(check(index({2}, {0, 1}), index({2}, {1, 1}))) << "another value";
  EXPECT_FALSE(check(index({2}, {0, 1}), index({2}, {4, 1}))) << "beyond the row";
  EXPECT_FALSE(check(index({2}, {0, 1}), index({2}, {-1, 1})));
  EXPECT_TRUE(check(index({2, 1}, {0, 1}), index({2, 1}, {2, 2}))) << "keepdim";
  EXPECT_TRUE(check(index({2, 2}, {0, 2, 1, 2}), index({2, 2}, {2, 0, 3, 1}))) << "topk";
  EXPECT_FALSE(check(index({2, 2}, {0, 2, 1, 2}), index({2, 2}, {0, 0, 1, 2}))) << "a place named twice";
}

RC_GTEST_PROP(Compare, WhatIsRightStaysRightWhenBothAreScaled, (uint64_t seed)) {
  Rng rng(seed);
  const auto truth = normal(1 + rng.below(200), seed);
  const double scale = std::ldexp(1.0, static_cast<int>(rng.below(60)) - 30);  // exact in fp32
  const double error = rng.uniform() * 2e-5;
  const auto shaken = changed(truth, [&](double v) { return v * (1 + error); });
  const auto verdict = [&](double s) {
    const auto n = static_cast<int64_t>(truth.size());
    const auto times = [s](double v) { return s * v; };
    const Value oracle = tensor(Dtype::kFloat64, {n}, changed(truth, times));
    return strict(tensor(Dtype::kFloat32, {n}, changed(truth, times)), &oracle,
                  tensor(Dtype::kFloat32, {n}, changed(shaken, times)))
        .equal;
  };
  RC_ASSERT(verdict(1) == verdict(scale));
}

RC_GTEST_PROP(Compare, AGrossErrorAnywhereIsSeen, (uint64_t seed)) {
  Rng rng(seed);
  const size_t n = 1 + rng.below(300);
  const auto truth = normal(n, seed);
  auto wrong = truth;
  const size_t at = rng.below(n);
  wrong[at] = wrong[at] * 2 + (wrong[at] < 0 ? -1 : 1);
  const auto length = static_cast<int64_t>(n);
  const Value oracle = tensor(Dtype::kFloat64, {length}, truth);
  const Comparison c =
      strict(tensor(Dtype::kFloat32, {length}, truth), &oracle, tensor(Dtype::kFloat32, {length}, wrong));
  RC_ASSERT(!c.equal);
  RC_ASSERT(c.first_mismatch->index.at(0) == static_cast<int64_t>(at));
}

// A candidate that overflows at one sign alone must meet that sign, whatever the seed; data of one sign keep it.
TEST(OtherValues, OutliersHaveTheSignsOfTheData) {
  std::vector<double> both, above;
  for (int i = 0; i < 24; ++i) {
    both.push_back(std::sin(7 * i + 1));
    above.push_back(1.5 + both.back());
  }
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const auto range = [&](const std::vector<double>& x) {
      const auto changed = with_other_values(tensor(Dtype::kFloat64, {24}, x), OtherValues::kOutliers, rng);
      const std::vector<double> y = to_doubles(Dtype::kFloat64, *changed.value().bytes);
      const auto [low, high] = std::minmax_element(y.begin(), y.end());
      return std::pair(*low, *high);
    };
    const auto [low, high] = range(both);
    EXPECT_LT(low, -100) << seed;
    EXPECT_GT(high, 100) << seed;
    const auto [least, most] = range(above);
    EXPECT_GT(least, 0) << seed;
    EXPECT_GT(most, 100) << seed;
  }
}

// Of x.matmul(a) with many outliers in both, one in some hundred had a sum where two products of outliers cancelled.
TEST(OtherValues, OneTensorAloneGetsManyOutliers) {
  std::vector<double> x;
  for (int i = 0; i < 2048; ++i) x.push_back(std::sin(7 * i + 1));
  Value both;
  both.kind = Value::Kind::kTuple;
  both.items = {tensor(Dtype::kFloat64, {2048}, x), tensor(Dtype::kFloat64, {2048}, x)};
  Rng rng(1);
  const auto changed = with_other_values(both, OtherValues::kOutliers, rng);
  const auto outliers = [&](int item) {
    const std::vector<double> y = to_doubles(Dtype::kFloat64, *changed.value().items[item].bytes);
    return std::count_if(y.begin(), y.end(), [](double v) { return std::fabs(v) > 100; });
  };
  EXPECT_EQ(outliers(0), 8);
  EXPECT_EQ(outliers(1), 2);
}

}  // namespace
}  // namespace kz::keck
