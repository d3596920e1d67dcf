// The part of pybind11 that kernels use: PYBIND11_MODULE with m.def of functions and lambdas, py::arg with defaults,
// py::none, GIL guards. Arguments convert as pybind11 and torch's casters convert them; the conversions themselves are
// in the shim. A type that is not here does not compile, and the real headers decide.
#pragma once

#include <kz/tensor.h>

namespace kz {

// Arg<T>: how a parameter of type T is filled from an object. `get` hands the value to the function.
template <typename T>
struct Arg;

template <typename T, typename Wire, int (*Load)(void*, int, Wire*)>
struct NumberArg {
  T value{};
  bool load(void* object, int convert) {
    Wire wire{};
    if (!Load(object, convert, &wire)) return false;
    value = static_cast<T>(wire);
    return static_cast<Wire>(value) == wire || wire != wire || std::is_floating_point_v<T>;
  }
  T get() { return value; }
};
template <>
struct Arg<signed char> : NumberArg<signed char, int64_t, kz_load_int> {};
template <>
struct Arg<short> : NumberArg<short, int64_t, kz_load_int> {};
template <>
struct Arg<int> : NumberArg<int, int64_t, kz_load_int> {};
template <>
struct Arg<long> : NumberArg<long, int64_t, kz_load_int> {};
template <>
struct Arg<long long> : NumberArg<long long, int64_t, kz_load_int> {};
template <>
struct Arg<unsigned char> : NumberArg<unsigned char, uint64_t, kz_load_uint> {};
template <>
struct Arg<unsigned short> : NumberArg<unsigned short, uint64_t, kz_load_uint> {};
template <>
struct Arg<unsigned int> : NumberArg<unsigned int, uint64_t, kz_load_uint> {};
template <>
struct Arg<unsigned long> : NumberArg<unsigned long, uint64_t, kz_load_uint> {};
template <>
struct Arg<unsigned long long> : NumberArg<unsigned long long, uint64_t, kz_load_uint> {};
template <>
struct Arg<float> : NumberArg<float, double, kz_load_double> {};
template <>
struct Arg<double> : NumberArg<double, double, kz_load_double> {};
template <>
struct Arg<bool> : NumberArg<bool, bool, kz_load_bool> {};

template <>
struct Arg<at::Tensor> {
  at::Tensor value;
  bool load(void* object, int) { return kz_load_tensor(object, &value); }
  at::Tensor& get() { return value; }
};

template <>
struct Arg<at::Scalar> {
  at::Scalar value;
  bool load(void* object, int) { return kz_load_scalar(object, &value); }
  at::Scalar& get() { return value; }
};

template <typename T, int (*Load)(void*, int8_t*)>
struct BytesArg {
  alignas(T) int8_t bytes[sizeof(T)] = {};
  bool load(void* object, int) { return Load(object, bytes); }
  T& get() { return *reinterpret_cast<T*>(bytes); }
};
template <>
struct Arg<at::ScalarType> : BytesArg<at::ScalarType, kz_load_dtype> {};
template <>
struct Arg<at::Device> : BytesArg<at::Device, kz_load_device> {};
template <>
struct Arg<at::Layout> : BytesArg<at::Layout, kz_load_layout> {};
template <>
struct Arg<at::MemoryFormat> : BytesArg<at::MemoryFormat, kz_load_memory_format> {};

template <typename T>
struct TextArg {
  T value;
  bool load(void* object, int) {
    const char* text = nullptr;
    size_t size = 0;
    if (!kz_load_text(object, &text, &size)) return false;
    value = T(text, size);
    return true;
  }
  T& get() { return value; }
};
template <>
struct Arg<std::string> : TextArg<std::string> {};
template <>
struct Arg<std::string_view> : TextArg<std::string_view> {};

template <typename T>
struct Arg<std::vector<T>> {
  std::vector<T> value;
  bool load(void* object, int convert) {
    const int64_t size = kz_sequence_size(object);
    if (size < 0) return false;
    value.clear();
    for (int64_t i = 0; i < size; ++i) {
      void* item = kz_sequence_item(object, i);
      Arg<T> element;
      const bool ok = item != nullptr && element.load(item, convert);
      if (ok) value.push_back(std::move(element.get()));
      if (item != nullptr) kz_release(item);
      if (!ok) return false;
    }
    return true;
  }
  std::vector<T>& get() { return value; }
};

// torch's own caster: a tuple or list of int, kept for the call.
template <>
struct Arg<at::IntArrayRef> {
  Arg<std::vector<int64_t>> values;
  at::IntArrayRef ref;
  bool load(void* object, int) { return kz_tuple_or_list_size(object) >= 0 && values.load(object, 1); }
  at::IntArrayRef& get() { return ref = values.value; }
};

template <typename T>
struct Arg<std::optional<T>> {
  std::optional<T> value;
  bool load(void* object, int convert) {
    if (kz_is_none(object)) return true;
    Arg<T> inner;
    if (!inner.load(object, convert)) return false;
    value = std::move(inner.get());
    return true;
  }
  std::optional<T>& get() { return value; }
};

template <typename... T>
struct TupleArg {
  std::tuple<Arg<T>...> parts;
  template <size_t... I>
  bool load_parts(void* object, int convert, std::index_sequence<I...>) {
    bool ok = true;
    (((ok = ok && load_part(std::get<I>(parts), object, I, convert))), ...);
    return ok;
  }
  template <typename A>
  static bool load_part(A& part, void* object, size_t index, int convert) {
    void* item = kz_sequence_item(object, static_cast<int64_t>(index));
    const bool ok = item != nullptr && part.load(item, convert);
    if (item != nullptr) kz_release(item);
    return ok;
  }
  bool load(void* object, int convert) {
    return kz_sequence_size(object) == static_cast<int64_t>(sizeof...(T)) &&
           load_parts(object, convert, std::index_sequence_for<T...>());
  }
};
template <typename... T>
struct Arg<std::tuple<T...>> : TupleArg<T...> {
  std::tuple<T...> get() {
    return std::apply([](auto&... part) { return std::tuple<T...>(std::move(part.get())...); }, this->parts);
  }
};
template <typename A, typename B>
struct Arg<std::pair<A, B>> : TupleArg<A, B> {
  std::pair<A, B> get() {
    return {std::move(std::get<0>(this->parts).get()), std::move(std::get<1>(this->parts).get())};
  }
};

// result(value): a new reference, or null with an error set.
inline void* result(at::Tensor value) { return kz_from_tensor(&value); }
inline void* result(bool value) { return kz_from_bool(value); }
inline void* result(const std::string& value) { return kz_from_text(value.data(), value.size()); }
inline void* result(const char* value) {
  return value == nullptr ? kz_none() : kz_from_text(value, __builtin_strlen(value));
}
inline void* result(const at::Scalar& value) { return kz_from_scalar(&value); }
inline void* result(at::ScalarType value) { return kz_from_dtype(static_cast<int8_t>(value)); }
inline void* result(const at::Device& value) { return kz_from_device(reinterpret_cast<const int8_t*>(&value)); }
template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
void* result(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return kz_from_double(static_cast<double>(value));
  } else if constexpr (std::is_signed_v<T>) {
    return kz_from_int(static_cast<int64_t>(value));
  } else {
    return kz_from_uint(static_cast<uint64_t>(value));
  }
}
template <typename T>
void* result(const std::optional<T>& value);
template <typename T>
void* result(const std::vector<T>& values);
template <typename... T>
void* result(const std::tuple<T...>& values);
template <typename A, typename B>
void* result(const std::pair<A, B>& values);

template <typename T>
void* result(const std::optional<T>& value) {
  return value ? result(*value) : kz_none();
}
template <typename T>
void* result(const std::vector<T>& values) {
  void* list = kz_new_list(values.size());
  for (size_t i = 0; list != nullptr && i < values.size(); ++i) list = kz_put(list, i, result(T(values[i])));
  return list;
}
template <typename... T>
void* result(const std::tuple<T...>& values) {
  void* tuple = kz_new_tuple(sizeof...(T));
  size_t i = 0;
  std::apply([&](const auto&... value) { ((tuple = tuple ? kz_put(tuple, i++, result(value)) : nullptr), ...); },
             values);
  return tuple;
}
template <typename A, typename B>
void* result(const std::pair<A, B>& values) {
  return result(std::tuple<const A&, const B&>(values.first, values.second));
}

// A parameter `const T&`, `T&` or `T` is filled by Arg<T>.
template <typename T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;
template <typename T>
decltype(auto) hand(Arg<Bare<T>>& argument) {
  if constexpr (std::is_lvalue_reference_v<T>) {
    if constexpr (std::is_same_v<decltype(argument.get()), Bare<T>&>) {
      return static_cast<Bare<T>&>(argument.get());
    } else {
      static_assert(std::is_const_v<std::remove_reference_t<T>>, "pybind11 refuses a reference to this type");
      return Bare<T>(argument.get());
    }
  } else {
    return Bare<T>(std::move(argument.get()));
  }
}

template <typename F, typename R, typename... A>
struct Call {
  static constexpr int count = static_cast<int>(sizeof...(A));
  template <size_t... I>
  static void* run(F& function, void* const* args, int convert, std::index_sequence<I...>) {
    std::tuple<Arg<Bare<A>>...> values;
    if (!(std::get<I>(values).load(args[I], convert) && ...)) return kz_next_overload();
    if constexpr (std::is_void_v<R>) {
      function(hand<A>(std::get<I>(values))...);
      return kz_none();
    } else {
      return result(function(hand<A>(std::get<I>(values))...));
    }
  }
  static void* thunk(void* function, [[maybe_unused]] void* const* args, [[maybe_unused]] int convert) {
    return run(*static_cast<F*>(function), args, convert, std::index_sequence_for<A...>());
  }
};

template <typename F>
struct CallOf : CallOf<decltype(&F::operator())> {};
template <typename R, typename... A>
struct CallOf<R (*)(A...)> {
  template <typename F>
  using Type = Call<F, R, A...>;
};
template <typename R, typename... A>
struct CallOf<R (*)(A...) noexcept> : CallOf<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct CallOf<R (C::*)(A...)> : CallOf<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct CallOf<R (C::*)(A...) const> : CallOf<R (*)(A...)> {};

}  // namespace kz

namespace torch {
// load_inline wraps the functions that it binds itself: exceptions are translated by torch, not by pybind11.
template <typename F>
struct KzWrapped {
  F function;
};
template <typename F>
KzWrapped<F*> wrap_pybind_function(F& function) {
  return {&function};
}
}  // namespace torch

namespace pybind11 {

struct none {};

struct arg_v {
  const char* name;
  void* value;
};
struct arg {
  const char* name;
  constexpr explicit arg(const char* n = nullptr) : name(n) {}
  template <typename T>
  arg_v operator=(T&& value) const {
    return {name, kz::result(std::forward<T>(value))};
  }
  arg_v operator=(none) const { return {name, kz_none()}; }
  arg_v operator=(std::nullopt_t) const { return {name, kz_none()}; }
};
inline namespace literals {
constexpr arg operator"" _a(const char* name, size_t) { return arg(name); }
}  // namespace literals

class gil_scoped_release {
 public:
  gil_scoped_release() : state_(kz_gil_release()) {}
  ~gil_scoped_release() { kz_gil_restore(state_); }
  gil_scoped_release(const gil_scoped_release&) = delete;

 private:
  void* state_;
};
class gil_scoped_acquire {
 public:
  gil_scoped_acquire() : state_(kz_gil_ensure()) {}
  ~gil_scoped_acquire() { kz_gil_end(state_); }
  gil_scoped_acquire(const gil_scoped_acquire&) = delete;

 private:
  void* state_;
};

class module_ {
 public:
  explicit module_(void* module) : module_pointer_(module) {}

  template <typename F, typename... Extra>
  module_& def(const char* name, F&& function, const Extra&... extra) {
    if constexpr (std::is_function_v<std::remove_reference_t<F>>) {
      add(name, &function, 0, extra...);
    } else {
      add(name, std::forward<F>(function), 0, extra...);
    }
    return *this;
  }
  template <typename F, typename... Extra>
  module_& def(const char* name, torch::KzWrapped<F> wrapped, const Extra&... extra) {
    add(name, wrapped.function, 1, extra...);
    return *this;
  }

  struct Doc {
    void* module;
    void operator=(const char* text) { kz_module_doc(module, text); }
  };
  Doc doc() { return {module_pointer_}; }

 private:
  struct Details {
    const char* doc = nullptr;
    KzParameter named[32] = {};
    int count = 0;
    void take(const char* text) { doc = text; }
    void take(const arg& a) { named[count++] = {a.name, nullptr}; }
    void take(const arg_v& a) { named[count++] = {a.name, a.value}; }
  };

  template <typename F, typename... Extra>
  void add(const char* name, F function, int wrapped, const Extra&... extra) {
    using Type = typename kz::CallOf<F>::template Type<F>;
    static_assert(sizeof...(Extra) < 32);
    Details details;
    (details.take(extra), ...);
    // Lives as long as the module, which is for ever.
    kz_module_function(module_pointer_, name, details.doc, &Type::thunk, new F(std::move(function)), Type::count,
                       details.count > 0 ? details.named : nullptr, wrapped);
  }

  void* module_pointer_;
};
using module = module_;

}  // namespace pybind11

namespace py = pybind11;

#define KZ_JOIN_(a, b) a##b
#define KZ_JOIN(a, b) KZ_JOIN_(a, b)
#define KZ_TEXT_(a) #a
#define KZ_TEXT(a) KZ_TEXT_(a)
#define PYBIND11_MODULE(name, variable, ...)                                                                \
  static void KZ_JOIN(pybind11_init_, name)(::pybind11::module_&);                                          \
  static void KZ_JOIN(kz_fill_, name)(void* module) {                                                       \
    ::pybind11::module_ wrapper(module);                                                                    \
    KZ_JOIN(pybind11_init_, name)(wrapper);                                                                 \
  }                                                                                                         \
  extern "C" __attribute__((visibility("default"))) PyObject* KZ_JOIN(PyInit_, name)();                     \
  extern "C" PyObject* KZ_JOIN(PyInit_, name)() {                                                           \
    return static_cast<PyObject*>(kz_module_end(kz_module_begin(KZ_TEXT(name)), &KZ_JOIN(kz_fill_, name))); \
  }                                                                                                         \
  void KZ_JOIN(pybind11_init_, name)(::pybind11::module_ & (variable))
