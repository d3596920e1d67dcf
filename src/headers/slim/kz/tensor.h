// at::Tensor as candidates see it: one pointer to the real TensorImpl, counted by the real reference count. Its name
// and layout are the real ones, so every function that the torch libraries export for at::Tensor fits as it is; what is
// inline in the real headers is a plain symbol of the shim.
#pragma once

#include <kz/abi.h>
#include <kz/vocabulary.h>

namespace c10 {
struct TensorImpl;
extern char kz_undefined_tensor KZ_SYMBOL("_ZN3c1019UndefinedTensorImpl10_singletonE");
}  // namespace c10

namespace at {

using c10::TensorImpl;
class Tensor;
class TensorBase;
using TensorList = ArrayRef<Tensor>;

class TensorBase {
 public:
  TensorBase() noexcept : impl_(undefined()) {}
  TensorBase(const TensorBase& other) noexcept : impl_(other.impl_) { kz_tensor_retain(impl_); }
  TensorBase(TensorBase&& other) noexcept : impl_(other.impl_) { other.impl_ = undefined(); }
  ~TensorBase() noexcept { kz_tensor_release(impl_); }
  TensorBase& operator=(const TensorBase& other) & noexcept {
    kz_tensor_retain(other.impl_);
    kz_tensor_release(impl_);
    impl_ = other.impl_;
    return *this;
  }
  TensorBase& operator=(TensorBase&& other) & noexcept {
    TensorImpl* const taken = other.impl_;
    other.impl_ = undefined();
    kz_tensor_release(impl_);
    impl_ = taken;
    return *this;
  }
  TensorBase& operator=(const TensorBase&) && = delete;
  TensorBase& operator=(TensorBase&&) && noexcept = delete;

  bool defined() const { return impl_ != undefined(); }
  void reset() KZ_SYMBOL("kz_b_reset");
  bool is_same(const TensorBase& other) const noexcept { return impl_ == other.impl_; }
  size_t use_count() const noexcept KZ_SYMBOL("kz_b_use_count");
  TensorImpl* unsafeGetTensorImpl() const { return impl_; }

  int64_t dim() const KZ_SYMBOL("kz_b_dim");
  int64_t ndimension() const KZ_SYMBOL("kz_b_dim");
  int64_t size(int64_t dim) const KZ_SYMBOL("kz_b_size");
  int64_t stride(int64_t dim) const KZ_SYMBOL("kz_b_stride");
  IntArrayRef sizes() const KZ_SYMBOL("kz_b_sizes");
  IntArrayRef strides() const KZ_SYMBOL("kz_b_strides");
  int64_t numel() const KZ_SYMBOL("kz_b_numel");
  int64_t storage_offset() const KZ_SYMBOL("kz_b_storage_offset");
  size_t nbytes() const KZ_SYMBOL("kz_b_nbytes");
  size_t itemsize() const KZ_SYMBOL("kz_b_itemsize");
  int64_t element_size() const KZ_SYMBOL("kz_b_element_size");
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const KZ_SYMBOL("kz_b_is_contiguous");
  bool is_non_overlapping_and_dense() const KZ_SYMBOL("kz_b_is_non_overlapping_and_dense");
  MemoryFormat suggest_memory_format(bool exact = false) const KZ_SYMBOL("kz_b_suggest_memory_format");
  bool has_storage() const KZ_SYMBOL("kz_b_has_storage");
  bool is_alias_of(const TensorBase& other) const KZ_SYMBOL("kz_b_is_alias_of");

  ScalarType scalar_type() const KZ_SYMBOL("kz_b_scalar_type");
  caffe2::TypeMeta dtype() const KZ_SYMBOL("kz_b_dtype");
  Layout layout() const KZ_SYMBOL("kz_b_layout");
  Device device() const KZ_SYMBOL("kz_b_device");
  DeviceIndex get_device() const KZ_SYMBOL("kz_b_get_device");
  TensorOptions options() const KZ_SYMBOL("kz_b_options");
  bool is_complex() const KZ_SYMBOL("kz_b_is_complex");
  bool is_floating_point() const KZ_SYMBOL("kz_b_is_floating_point");
  bool is_signed() const KZ_SYMBOL("kz_b_is_signed");
  bool is_cpu() const KZ_SYMBOL("kz_b_is_cpu");
  bool is_cuda() const KZ_SYMBOL("kz_b_is_cuda");
  bool is_meta() const KZ_SYMBOL("kz_b_is_meta");
  bool is_sparse() const KZ_SYMBOL("kz_b_is_sparse");
  bool is_quantized() const KZ_SYMBOL("kz_b_is_quantized");
  bool is_conj() const KZ_SYMBOL("kz_b_is_conj");
  bool is_neg() const KZ_SYMBOL("kz_b_is_neg");
  bool is_inference() const KZ_SYMBOL("kz_b_is_inference");
  bool is_nested() const KZ_SYMBOL("kz_b_is_nested");

  bool requires_grad() const KZ_SYMBOL("kz_b_requires_grad");
  const TensorBase& set_requires_grad(bool requires_grad) const KZ_SYMBOL("kz_b_set_requires_grad");
  // Exported by the torch libraries under these very names.
  bool is_leaf() const;
  int64_t output_nr() const;
  int64_t _version() const;
  void retain_grad() const;
  bool retains_grad() const;
  const TensorBase& requires_grad_(bool requires_grad = true) const;
  void print() const;
  std::string toString() const;

  void* data_ptr() const KZ_SYMBOL("kz_b_data_ptr");
  void* mutable_data_ptr() const KZ_SYMBOL("kz_b_data_ptr");
  const void* const_data_ptr() const KZ_SYMBOL("kz_b_const_data_ptr");
  // Defined in the libraries for the element types that torch knows; others are undefined symbols, as they are there.
  template <typename T, std::enable_if_t<!std::is_const_v<T>, int> = 0>
  const T* const_data_ptr() const;
  template <typename T, std::enable_if_t<std::is_const_v<T>, int> = 0>
  const std::remove_const_t<T>* const_data_ptr() const;
  template <typename T>
  T* mutable_data_ptr() const;
  template <typename T>
  T* data_ptr() const;

  template <typename T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    static_assert(N > 0, "accessor is used for indexing tensor, for scalars use *data_ptr<T>()");
    TORCH_CHECK(dim() == N, "TensorAccessor expected ", N, " dims but tensor has ", dim());
    return TensorAccessor<T, N>(elements<T>(), sizes().data(), strides().data());
  }
  template <typename T, size_t N>
  TensorAccessor<T, N> accessor() && = delete;

  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
  GenericPackedTensorAccessor<T, N, PtrTraits, index_t> generic_packed_accessor() const& {
    static_assert(N > 0, "accessor is used for indexing tensor, for scalars use *data_ptr<T>()");
    TORCH_CHECK(dim() == N, "TensorAccessor expected ", N, " dims but tensor has ", dim());
    return GenericPackedTensorAccessor<T, N, PtrTraits, index_t>(
        static_cast<typename PtrTraits<T>::PtrType>(elements<T>()), sizes().data(), strides().data());
  }
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
  GenericPackedTensorAccessor<T, N> generic_packed_accessor() && = delete;

  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, PtrTraits> packed_accessor32() const& {
    TORCH_CHECK(numel() <= static_cast<int64_t>(std::numeric_limits<int32_t>::max()),
                "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
    return generic_packed_accessor<T, N, PtrTraits, int32_t>();
  }
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, PtrTraits> packed_accessor32() && = delete;
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, PtrTraits> packed_accessor64() const& {
    return generic_packed_accessor<T, N, PtrTraits, int64_t>();
  }
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, PtrTraits> packed_accessor64() && = delete;

 protected:
  static TensorImpl* undefined() { return reinterpret_cast<TensorImpl*>(&c10::kz_undefined_tensor); }
  template <typename T>
  T* elements() const {
    if constexpr (std::is_const_v<T>) {
      return const_data_ptr<T>();
    } else {
      return mutable_data_ptr<T>();
    }
  }

  TensorImpl* impl_;
};

class Tensor : public TensorBase {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  explicit Tensor(const TensorBase& base) : TensorBase(base) {}
  Tensor(TensorBase&& base) : TensorBase(std::move(base)) {}
  Tensor& operator=(const TensorBase& other) & noexcept {
    TensorBase::operator=(other);
    return *this;
  }
  Tensor& operator=(TensorBase&& other) & noexcept {
    TensorBase::operator=(std::move(other));
    return *this;
  }
  Tensor& operator=(const Tensor& other) & noexcept { return operator=(static_cast<const TensorBase&>(other)); }
  Tensor& operator=(Tensor&& other) & noexcept { return operator=(static_cast<TensorBase&&>(other)); }
  // Assignment to a temporary writes the elements: x[0] = 1.
  Tensor& operator=(const Scalar& value) && { return fill_(value); }
  Tensor& operator=(const Tensor& value) && { return copy_(value); }
  Tensor& operator=(Tensor&& value) && { return copy_(value); }

  using TensorBase::size;
  using TensorBase::stride;
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const KZ_SYMBOL("kz_b_contiguous");
  Tensor data() const KZ_SYMBOL("kz_b_data");
  template <typename T>
  T* data() const {
    return data_ptr<T>();
  }
  Tensor conj() const KZ_SYMBOL("kz_b_conj");
  Tensor toType(ScalarType type) const KZ_SYMBOL("kz_b_to_type");
  Tensor cpu() const KZ_SYMBOL("kz_b_cpu");
  Tensor cuda() const KZ_SYMBOL("kz_b_cuda");
  Tensor meta() const KZ_SYMBOL("kz_b_meta");
  Scalar item() const KZ_SYMBOL("kz_b_item");
  template <typename T>
  T item() const;
  const Tensor& set_requires_grad(bool requires_grad) const KZ_SYMBOL("kz_b_set_requires_grad");
  Tensor& requires_grad_(bool requires_grad = true) const KZ_SYMBOL("kz_b_requires_grad_");
  const Tensor& grad() const KZ_SYMBOL("kz_b_grad");
  Tensor& mutable_grad() const KZ_SYMBOL("kz_b_mutable_grad");
  void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                std::optional<TensorList> inputs = std::nullopt) const KZ_SYMBOL("kz_b_backward");

  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
  GenericPackedTensorAccessor<T, N, PtrTraits, index_t> packed_accessor() const& {
    return generic_packed_accessor<T, N, PtrTraits, index_t>();
  }
  template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
  GenericPackedTensorAccessor<T, N, PtrTraits, index_t> packed_accessor() && = delete;

  Tensor operator~() const { return bitwise_not(); }
  Tensor operator-() const { return neg(); }
  Tensor& operator+=(const Tensor& other) { return add_(other); }
  Tensor& operator+=(const Scalar& other) { return add_(other); }
  Tensor& operator-=(const Tensor& other) { return sub_(other); }
  Tensor& operator-=(const Scalar& other) { return sub_(other); }
  Tensor& operator*=(const Tensor& other) { return mul_(other); }
  Tensor& operator*=(const Scalar& other) { return mul_(other); }
  Tensor& operator/=(const Tensor& other) { return div_(other); }
  Tensor& operator/=(const Scalar& other) { return div_(other); }
  Tensor& operator&=(const Tensor& other) { return bitwise_and_(other); }
  Tensor& operator|=(const Tensor& other) { return bitwise_or_(other); }
  Tensor& operator^=(const Tensor& other) { return bitwise_xor_(other); }
  Tensor operator[](const Scalar& index) const KZ_SYMBOL("kz_b_at_scalar");
  Tensor operator[](const Tensor& index) const KZ_SYMBOL("kz_b_at_tensor");
  Tensor operator[](int64_t index) const KZ_SYMBOL("kz_b_at");

#include <kz_gen/methods.inc>
};

static_assert(sizeof(Tensor) == sizeof(void*));

}  // namespace at
