#include "keck/judge/compare.h"

#include <algorithm>
#include <cmath>

#include "keck/judge/error_model.h"
#include "keck/judge/tensor.h"
#include "keck/judge/ties.h"

namespace kz::keck {
namespace {

const char* kind_name(Value::Kind kind) {
  static constexpr const char* kNames[] = {"None",  "bool", "int",   "float",  "str",   "list",
                                           "tuple", "dict", "dtype", "device", "tensor"};
  return kNames[static_cast<size_t>(kind)];
}

// Loose checks as published: |got - expected| <= atol + rtol * |expected|, atol = rtol.
double loose_tolerance(Check check, Dtype dtype) {
  if (check == Check::kKeckV0) return 1e-2;
  return dtype == Dtype::kFloat16 || dtype == Dtype::kBfloat16 ? 1e-2 : 1e-4;
}

bool same_scalar(const Value& a, const Value& b) {
  return a.kind == b.kind && a.integer == b.integer && a.text == b.text && a.device == b.device &&
         (a.kind != Value::Kind::kFloat || a.real == b.real);
}

class Comparer {
 public:
  Comparer(const std::vector<Value>& inputs, const CompareOptions& options) : options_(options) {
    for (const Value& input : inputs) {
      for (const Value* tensor : tensors_of(input)) sources_.push_back(tensor);
    }
  }

  // Everything is walked, so that the errors reported are the largest; the first thing wrong names the reason.
  void walk(const Value& expected, const Value* oracle, const Value& got) {
    if (expected.kind != got.kind) {
      return wrong("structure", std::string("expected ") + kind_name(expected.kind) + ", got " + kind_name(got.kind));
    }
    if (oracle && oracle->kind != expected.kind) oracle = nullptr;
    switch (expected.kind) {
      case Value::Kind::kTensor:
        return tensor(expected, oracle, got);
      case Value::Kind::kList:
      case Value::Kind::kTuple:
        return sequence(expected, oracle, got);
      case Value::Kind::kDict:
        return dict(expected, oracle, got);
      case Value::Kind::kFloat:
        return number(expected, oracle, got);
      default:
        ++output_;
        if (!same_scalar(expected, got)) wrong("wrong_values", std::string("another ") + kind_name(expected.kind));
    }
  }

  Comparison take() {
    result_.equal = result_.reason.empty();
    return std::move(result_);
  }

 private:
  void wrong(const char* reason, std::string message) {
    if (!result_.reason.empty()) return;
    result_.reason = reason;
    result_.message = "output " + std::to_string(std::max(output_ - 1, 0)) + ": " + std::move(message);
  }

  void sequence(const Value& expected, const Value* oracle, const Value& got) {
    if (expected.items.size() != got.items.size()) {
      return wrong("structure", "expected " + std::to_string(expected.items.size()) + " items, got " +
                                    std::to_string(got.items.size()));
    }
    if (oracle && oracle->items.size() != expected.items.size()) oracle = nullptr;
    for (size_t i = 0; i < expected.items.size(); ++i) {
      walk(expected.items[i], oracle ? &oracle->items[i] : nullptr, got.items[i]);
    }
  }

  static const Value* find(const Value& dict, const Value& key) {
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      if (same_scalar(dict.items[i], key)) return &dict.items[i + 1];
    }
    return nullptr;
  }

  void dict(const Value& expected, const Value* oracle, const Value& got) {
    if (expected.items.size() != got.items.size()) return wrong("structure", "a dict of another size");
    for (size_t i = 0; i + 1 < expected.items.size(); i += 2) {
      const Value* item = find(got, expected.items[i]);
      if (!item) return wrong("structure", "a key is missing: " + expected.items[i].text);
      walk(expected.items[i + 1], oracle ? find(*oracle, expected.items[i]) : nullptr, *item);
    }
  }

  // A Python float is judged like a tensor of one fp32 element: it came out of one, as a rule.
  void number(const Value& expected, const Value* oracle, const Value& got) {
    const int index = output_++;
    std::vector<double> truth;
    if (oracle) truth.push_back(oracle->real);
    values(index, Dtype::kFloat32, {}, {expected.real}, std::move(truth), true, {got.real});
  }

  void tensor(const Value& expected, const Value* oracle, const Value& got) {
    const int index = output_++;
    const TensorRef& e = expected.tensor;
    const TensorRef& g = got.tensor;
    if (e.device != g.device) return wrong("device", "on another device than the reference's");
    if (e.dtype != g.dtype || e.shape != g.shape) {
      return wrong(e.shape != g.shape ? "shape" : "dtype", "expected " + describe(e) + ", got " + describe(g));
    }
    if (!expected.bytes || !got.bytes) return wrong("device", "a device that cannot be read");
    if (!is_floating(e.dtype)) return exact(index, expected, got);
    // The same bits are the same answer, unless the check forbids NaN.
    if (options_.check == Check::kStrict && *expected.bytes == *got.bytes) return note_tolerance(e.dtype);
    std::vector<double> truth;
    bool wider = false;
    if (oracle && oracle->bytes && oracle->tensor.shape == e.shape && is_floating(oracle->tensor.dtype)) {
      truth = to_doubles(oracle->tensor.dtype, *oracle->bytes);
      wider = dtype_size(oracle->tensor.dtype) > dtype_size(e.dtype);
    }
    values(index, e.dtype, e.shape, to_doubles(e.dtype, *expected.bytes), std::move(truth), wider,
           to_doubles(g.dtype, *got.bytes));
  }

  void note_tolerance(Dtype dtype) {
    const ErrorBounds bounds = error_bounds(dtype, {}, {1.0}, {1.0}, true, options_.sum_length);
    result_.tolerance = std::max(result_.tolerance, bounds.relative * options_.factor);
  }

  void exact(int output, const Value& expected, const Value& got) {
    if (*expected.bytes == *got.bytes) return;
    if (options_.check == Check::kStrict && same_by_gathered_value(expected, got, sources_)) return;
    const TensorRef& e = expected.tensor;
    const std::vector<double> want = to_doubles(e.dtype, *expected.bytes);
    const std::vector<double> have = to_doubles(e.dtype, *got.bytes);
    const double loose =
        options_.check == Check::kStrict || e.dtype == Dtype::kBool ? -1 : loose_tolerance(options_.check, e.dtype);
    const size_t size = dtype_size(e.dtype);
    size_t bad = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double error = std::fabs(want[i] - have[i]);
      const bool same = expected.bytes->compare(i * size, size, *got.bytes, i * size, size) == 0;
      if (same || (loose >= 0 && error <= loose + loose * std::fabs(want[i]))) continue;
      note_mismatch(output, e.shape, i, want[i], have[i], bad++ == 0);
      result_.max_abs_error = std::max(result_.max_abs_error, error);
    }
    if (bad > 0) finish_wrong("wrong_values", bad, want.size());
  }

  void values(int output, Dtype dtype, std::span<const int64_t> shape, std::vector<double> want,
              std::vector<double> truth, bool wider, const std::vector<double>& have) {
    const size_t n = want.size();
    const bool loose = options_.check != Check::kStrict;
    size_t bad = 0, bad_finite = 0;
    std::vector<char> settled(n, 0);
    for (size_t i = 0; i < n; ++i) {
      if (std::isfinite(want[i]) && std::isfinite(have[i])) continue;
      settled[i] = 1;
      const bool same_inf = std::isinf(want[i]) && want[i] == have[i];
      const bool same_nan = std::isnan(want[i]) && std::isnan(have[i]) && !loose;  // allclose: NaN equals nothing
      if (same_inf || same_nan) continue;
      settled[i] = 2;
      ++bad_finite;
    }
    ErrorBounds bounds;
    if (loose) {
      bounds.relative = loose_tolerance(options_.check, dtype);
      bounds.bound.resize(n);
      for (size_t i = 0; i < n; ++i) bounds.bound[i] = bounds.relative + bounds.relative * std::fabs(want[i]);
      bounds.target = want;
    } else {
      bounds = error_bounds(dtype, shape, want, std::move(truth), wider, options_.sum_length, options_.coarsest);
    }
    const double tolerance = bounds.relative * options_.factor;
    result_.widening = std::max(result_.widening, bounds.widening);
    result_.tolerance = std::max(result_.tolerance, tolerance);
    for (size_t i = 0; i < n; ++i) {
      bool right = settled[i] == 1;
      if (settled[i] == 0) {
        const double error = std::fabs(have[i] - bounds.target[i]);
        const double bound = bounds.bound[i] * options_.factor;
        const double scaled = error == 0 ? 0 : (bound > 0 ? error / bound * tolerance : INFINITY);
        right = error <= bound;
        result_.max_abs_error = std::max(result_.max_abs_error, error);
        result_.scaled = std::max(result_.scaled, scaled);
      }
      if (!right) note_mismatch(output, shape, i, want[i], have[i], bad++ == 0);
    }
    if (bad > 0) finish_wrong(bad_finite == bad ? "non_finite" : "wrong_values", bad, n);
  }

  void note_mismatch(int output, std::span<const int64_t> shape, size_t flat, double expected, double got, bool first) {
    if (!first || result_.first_mismatch || !result_.reason.empty()) return;
    Mismatch& m = result_.first_mismatch.emplace();
    m.output = output;
    m.index = unravel(shape, static_cast<int64_t>(flat));
    m.expected = expected;
    m.got = got;
  }

  void finish_wrong(const char* reason, size_t bad, size_t total) {
    if (!result_.reason.empty()) return;
    result_.wrong_share = static_cast<double>(bad) / static_cast<double>(total);
    wrong(reason, std::to_string(bad) + " of " + std::to_string(total) + " elements wrong");
  }

  const CompareOptions& options_;
  std::vector<const Value*> sources_;
  Comparison result_;
  int output_ = 0;
};

}  // namespace

std::optional<Check> parse_check(std::string_view name) {
  if (name == "strict") return Check::kStrict;
  if (name == "kernelbench") return Check::kKernelBench;
  if (name == "keck-v0") return Check::kKeckV0;
  return std::nullopt;
}

Comparison compare(const Value& expected, const Value* oracle, const Value& got, const std::vector<Value>& inputs,
                   const CompareOptions& options) {
  Comparer comparer(inputs, options);
  comparer.walk(expected, oracle, got);
  return comparer.take();
}

bool all_finite(const Value& value) {
  for (const Value* v : tensors_of(value)) {
    if (!is_floating(v->tensor.dtype) || !v->bytes) continue;
    for (double x : to_doubles(v->tensor.dtype, *v->bytes)) {
      if (!std::isfinite(x)) return false;
    }
  }
  return true;
}

}  // namespace kz::keck
