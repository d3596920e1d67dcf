// Functions on tensors: the operators of namespace at, the factories of namespace torch, arithmetic, printing.
#pragma once

#include <kz/tensor.h>

namespace at {

#include <kz_gen/functions.inc>

#define KZ_BINARY(op, name)                                                           \
  Tensor operator op(const Tensor& x, const Tensor& y) KZ_SYMBOL("kz_o_" name "_tt"); \
  Tensor operator op(const Tensor& x, const Scalar& y) KZ_SYMBOL("kz_o_" name "_ts"); \
  Tensor operator op(const Scalar& x, const Tensor& y) KZ_SYMBOL("kz_o_" name "_st");
KZ_BINARY(+, "add")
KZ_BINARY(*, "mul")
KZ_BINARY(-, "sub")
KZ_BINARY(/, "div")
KZ_BINARY(%, "remainder")
KZ_BINARY(&, "and")
KZ_BINARY(|, "or")
KZ_BINARY(^, "xor")
KZ_BINARY(<, "lt")
KZ_BINARY(<=, "le")
KZ_BINARY(>, "gt")
KZ_BINARY(>=, "ge")
KZ_BINARY(==, "eq")
KZ_BINARY(!=, "ne")
#undef KZ_BINARY

using Deleter = std::function<void(void*)>;
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const Deleter& deleter,
                 const TensorOptions& options = {}, const std::optional<Device> target_device = std::nullopt)
    KZ_SYMBOL("kz_b_from_blob_0");
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, int64_t storage_offset, const Deleter& deleter,
                 const TensorOptions& options = {}, const std::optional<Device> target_device = std::nullopt)
    KZ_SYMBOL("kz_b_from_blob_1");
Tensor from_blob(void* data, IntArrayRef sizes, Deleter deleter, const TensorOptions& options = {},
                 const std::optional<Device> target_device = std::nullopt) KZ_SYMBOL("kz_b_from_blob_2");
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {})
    KZ_SYMBOL("kz_b_from_blob_3");
Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {}) KZ_SYMBOL("kz_b_from_blob_4");
int64_t numel(const Tensor& tensor) KZ_SYMBOL("kz_b_numel");

std::ostream& print(std::ostream& stream, const Tensor& tensor, int64_t linesize);
void manual_seed(uint64_t seed) KZ_SYMBOL("kz_b_manual_seed");
inline std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return print(out, tensor, 80); }

}  // namespace at

namespace torch {

using namespace at;
using std::nullopt;
using std::optional;
using Dtype = at::ScalarType;
#include <kz_gen/dtypes.inc>
using NoGradGuard = at::NoGradGuard;
using AutoGradMode = at::AutoGradMode;
using at::get_num_interop_threads;
using at::get_num_threads;
using at::init_num_threads;
using at::manual_seed;
using at::set_num_interop_threads;
using at::set_num_threads;

#include <kz_gen/factories.inc>

using Deleter = std::function<void(void*)>;
Tensor from_blob(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, const Deleter& deleter,
                 const at::TensorOptions& options = at::TensorOptions()) KZ_SYMBOL("kz_b_torch_from_blob_0");
Tensor from_blob(void* data, at::IntArrayRef sizes, at::IntArrayRef strides,
                 const at::TensorOptions& options = at::TensorOptions()) KZ_SYMBOL("kz_b_torch_from_blob_1");
Tensor from_blob(void* data, at::IntArrayRef sizes, const Deleter& deleter,
                 const at::TensorOptions& options = at::TensorOptions()) KZ_SYMBOL("kz_b_torch_from_blob_2");
Tensor from_blob(void* data, at::IntArrayRef sizes, const at::TensorOptions& options = at::TensorOptions())
    KZ_SYMBOL("kz_b_torch_from_blob_3");

}  // namespace torch
