// The shim's side of slim/kz/tensor.h and slim/kz/functions.h: what is inline in the real headers, as plain symbols.
// Symbols named in the slim headers take `const at::Tensor& self` where the method takes `this`.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include "shim.h"

using at::Tensor;
using at::TensorBase;

extern "C" {

void kz_tensor_retain(void* impl) {
  if (impl != c10::UndefinedTensorImpl::singleton())
    c10::raw::intrusive_ptr::incref(static_cast<c10::TensorImpl*>(impl));
}
void kz_tensor_release(void* impl) {
  if (impl != c10::UndefinedTensorImpl::singleton())
    c10::raw::intrusive_ptr::decref(static_cast<c10::TensorImpl*>(impl));
}

void kz_b_reset(Tensor& self) { self.reset(); }
size_t kz_b_use_count(const Tensor& self) noexcept { return self.use_count(); }
int64_t kz_b_dim(const Tensor& self) { return self.dim(); }
int64_t kz_b_size(const Tensor& self, int64_t dim) { return self.size(dim); }
int64_t kz_b_stride(const Tensor& self, int64_t dim) { return self.stride(dim); }
at::IntArrayRef kz_b_sizes(const Tensor& self) { return self.sizes(); }
at::IntArrayRef kz_b_strides(const Tensor& self) { return self.strides(); }
int64_t kz_b_numel(const Tensor& self) { return self.numel(); }
int64_t kz_b_storage_offset(const Tensor& self) { return self.storage_offset(); }
size_t kz_b_nbytes(const Tensor& self) { return self.nbytes(); }
size_t kz_b_itemsize(const Tensor& self) { return self.itemsize(); }
int64_t kz_b_element_size(const Tensor& self) { return self.element_size(); }
bool kz_b_is_contiguous(const Tensor& self, at::MemoryFormat format) { return self.is_contiguous(format); }
bool kz_b_is_non_overlapping_and_dense(const Tensor& self) { return self.is_non_overlapping_and_dense(); }
at::MemoryFormat kz_b_suggest_memory_format(const Tensor& self, bool exact) {
  return self.suggest_memory_format(exact);
}
bool kz_b_has_storage(const Tensor& self) { return self.has_storage(); }
bool kz_b_is_alias_of(const Tensor& self, const TensorBase& other) { return self.is_alias_of(other); }

at::ScalarType kz_b_scalar_type(const Tensor& self) { return self.scalar_type(); }
caffe2::TypeMeta kz_b_dtype(const Tensor& self) { return self.dtype(); }
at::Layout kz_b_layout(const Tensor& self) { return self.layout(); }
at::Device kz_b_device(const Tensor& self) { return self.device(); }
c10::DeviceIndex kz_b_get_device(const Tensor& self) { return self.get_device(); }
at::TensorOptions kz_b_options(const Tensor& self) { return self.options(); }
bool kz_b_is_complex(const Tensor& self) { return self.is_complex(); }
bool kz_b_is_floating_point(const Tensor& self) { return self.is_floating_point(); }
bool kz_b_is_signed(const Tensor& self) { return self.is_signed(); }
bool kz_b_is_cpu(const Tensor& self) { return self.is_cpu(); }
bool kz_b_is_cuda(const Tensor& self) { return self.is_cuda(); }
bool kz_b_is_meta(const Tensor& self) { return self.is_meta(); }
bool kz_b_is_sparse(const Tensor& self) { return self.is_sparse(); }
bool kz_b_is_quantized(const Tensor& self) { return self.is_quantized(); }
bool kz_b_is_conj(const Tensor& self) { return self.is_conj(); }
bool kz_b_is_neg(const Tensor& self) { return self.is_neg(); }
bool kz_b_is_inference(const Tensor& self) { return self.is_inference(); }
bool kz_b_is_nested(const Tensor& self) { return self.is_nested(); }

bool kz_b_requires_grad(const Tensor& self) { return self.requires_grad(); }
const Tensor& kz_b_set_requires_grad(const Tensor& self, bool value) { return self.set_requires_grad(value); }
Tensor& kz_b_requires_grad_(const Tensor& self, bool value) {
  self.requires_grad_(value);
  return const_cast<Tensor&>(self);
}
const Tensor& kz_b_grad(const Tensor& self) { return self.grad(); }
Tensor& kz_b_mutable_grad(const Tensor& self) { return self.mutable_grad(); }
void kz_b_backward(const Tensor& self, const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph,
                   std::optional<at::TensorList> inputs) {
  KZ_OPERATOR("backward");
  self.backward(gradient, retain_graph, create_graph, inputs);
}

void* kz_b_data_ptr(const Tensor& self) { return self.data_ptr(); }
const void* kz_b_const_data_ptr(const Tensor& self) { return self.const_data_ptr(); }

Tensor kz_b_contiguous(const Tensor& self, at::MemoryFormat format) { return self.contiguous(format); }
Tensor kz_b_data(const Tensor& self) { return self.data(); }
Tensor kz_b_conj(const Tensor& self) {
  KZ_OPERATOR("conj");
  return self.conj();
}
Tensor kz_b_to_type(const Tensor& self, at::ScalarType type) { return self.toType(type); }
Tensor kz_b_cpu(const Tensor& self) { return self.cpu(); }
Tensor kz_b_cuda(const Tensor& self) { return self.cuda(); }
Tensor kz_b_meta(const Tensor& self) { return self.meta(); }
at::Scalar kz_b_item(const Tensor& self) { return self.item(); }
Tensor kz_b_at(const Tensor& self, int64_t index) { return self[index]; }
Tensor kz_b_at_scalar(const Tensor& self, const at::Scalar& index) { return self[index]; }
Tensor kz_b_at_tensor(const Tensor& self, const Tensor& index) { return self[index]; }

#define KZ_BINARY(op, name)                                       \
  Tensor kz_o_##name##_tt(const Tensor& x, const Tensor& y) {     \
    KZ_OPERATOR(#name);                                           \
    return x op y;                                                \
  }                                                               \
  Tensor kz_o_##name##_ts(const Tensor& x, const at::Scalar& y) { \
    KZ_OPERATOR(#name);                                           \
    return x op y;                                                \
  }                                                               \
  Tensor kz_o_##name##_st(const at::Scalar& x, const Tensor& y) { \
    KZ_OPERATOR(#name);                                           \
    return x op y;                                                \
  }
KZ_BINARY(+, add)
KZ_BINARY(*, mul)
KZ_BINARY(-, sub)
KZ_BINARY(/, div)
KZ_BINARY(%, remainder)
KZ_BINARY(&, and)
KZ_BINARY(|, or)
KZ_BINARY(^, xor)
KZ_BINARY(<, lt)
KZ_BINARY(<=, le)
KZ_BINARY(>, gt)
KZ_BINARY(>=, ge)
KZ_BINARY(==, eq)
KZ_BINARY(!=, ne)

using Deleter = std::function<void(void*)>;
Tensor kz_b_from_blob_0(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, const Deleter& deleter,
                        const at::TensorOptions& options, const std::optional<at::Device> device) {
  return at::from_blob(data, sizes, strides, deleter, options, device);
}
Tensor kz_b_from_blob_1(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                        const Deleter& deleter, const at::TensorOptions& options,
                        const std::optional<at::Device> device) {
  return at::from_blob(data, sizes, strides, offset, deleter, options, device);
}
Tensor kz_b_from_blob_2(void* data, at::IntArrayRef sizes, Deleter deleter, const at::TensorOptions& options,
                        const std::optional<at::Device> device) {
  return at::from_blob(data, sizes, std::move(deleter), options, device);
}
Tensor kz_b_from_blob_3(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  return at::from_blob(data, sizes, strides, options);
}
Tensor kz_b_from_blob_4(void* data, at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::from_blob(data, sizes, options);
}
Tensor kz_b_torch_from_blob_0(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, const Deleter& deleter,
                              const at::TensorOptions& options) {
  return torch::from_blob(data, sizes, strides, deleter, options);
}
Tensor kz_b_torch_from_blob_1(void* data, at::IntArrayRef sizes, at::IntArrayRef strides,
                              const at::TensorOptions& options) {
  return torch::from_blob(data, sizes, strides, options);
}
Tensor kz_b_torch_from_blob_2(void* data, at::IntArrayRef sizes, const Deleter& deleter,
                              const at::TensorOptions& options) {
  return torch::from_blob(data, sizes, deleter, options);
}
Tensor kz_b_torch_from_blob_3(void* data, at::IntArrayRef sizes, const at::TensorOptions& options) {
  return torch::from_blob(data, sizes, options);
}
void kz_b_manual_seed(uint64_t seed) { at::manual_seed(seed); }

#include <kz_gen/operators.inc>
}
