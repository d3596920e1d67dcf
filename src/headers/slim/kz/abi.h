// What the slim headers and the shim agree on beside the operators: arguments and results of bound functions.
// Objects of Python are void* here, so that this file needs no Python.h.
#pragma once

#include <cstddef>
#include <cstdint>

// The assembler name of a declaration: the shim defines it as a plain C symbol with the same argument types.
#define KZ_SYMBOL(name) __asm__(name)

extern "C" {

// A bound function. Converts `args` (borrowed objects, one a parameter), calls, and returns a new reference.
// kz_next_overload() says that an argument did not convert; null that a Python error is set. Exceptions of the function
// leave it: the caller in the shim turns them into Python's. `convert` is 0 in pybind's first pass over overloads.
typedef void* (*KzThunk)(void* function, void* const* args, int convert);

struct KzParameter {
  const char* name;  // null: positional only
  void* value;       // default, owned; null: none
};

void* kz_next_overload(void);
// A module under construction, from PyInit_*. kz_module_end returns the module object, or null with an error set.
void* kz_module_begin(const char* name);
void kz_module_doc(void* module, const char* doc);
// `signature` is shown in errors ("(Tensor, int) -> Tensor"); `wrapped` selects torch's translation of exceptions
// (load_inline's functions=), else pybind's.
void kz_module_function(void* module, const char* name, const char* doc, KzThunk thunk, void* function, int parameters,
                        const KzParameter* named, int wrapped);
void* kz_module_end(void* module, void (*fill)(void* module));

// Arguments: 1 when it converted. Tensors are written over an undefined one.
int kz_load_tensor(void* object, void* tensor);
int kz_load_int(void* object, int convert, int64_t* value);
int kz_load_uint(void* object, int convert, uint64_t* value);
int kz_load_double(void* object, int convert, double* value);
int kz_load_bool(void* object, int convert, bool* value);
int kz_load_text(void* object, const char** text, size_t* size);
int kz_load_scalar(void* object, void* scalar);
int kz_load_dtype(void* object, int8_t* type);
int kz_load_device(void* object, int8_t* device);  // two bytes: type, index
int kz_load_layout(void* object, int8_t* layout);
int kz_load_memory_format(void* object, int8_t* format);
int kz_is_none(void* object);
int64_t kz_sequence_size(void* object);         // -1: none, or text
void* kz_sequence_item(void* object, int64_t);  // new reference or null
int64_t kz_tuple_or_list_size(void* object);    // -1: neither
void kz_release(void* object);

// Results: new references or null with an error set.
void* kz_none(void);
void* kz_from_tensor(void* tensor);  // moved from; undefined becomes None
void* kz_from_int(int64_t value);
void* kz_from_uint(uint64_t value);
void* kz_from_double(double value);
void* kz_from_bool(bool value);
void* kz_from_text(const char* text, size_t size);
void* kz_from_scalar(const void* scalar);
void* kz_from_dtype(int8_t type);
void* kz_from_device(const int8_t* device);
void* kz_new_list(size_t size);
void* kz_new_tuple(size_t size);
// Steals `item`; a null item (an error) spoils the container: it is released and null is returned.
void* kz_put(void* container, size_t index, void* item);

void kz_tensor_retain(void* impl);
void kz_tensor_release(void* impl);
void* kz_gil_release(void);
void kz_gil_restore(void* state);
void* kz_gil_ensure(void);
void kz_gil_end(void* state);
}
