// Strided tensors as bytes: gathered into logical order, scattered back, widened to double.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "keck/judge/protocol.h"

namespace kz::keck {

bool is_contiguous(const TensorRef& tensor);
uint64_t extent_bytes(const TensorRef& tensor);  // from the first element to the end of the last; 0 when empty

// `raw` holds extent_bytes(tensor) from the tensor's first element on.
std::string gather(const TensorRef& tensor, std::string_view raw);
void scatter(const TensorRef& tensor, std::string_view contiguous, char* raw);

// The strides that a copy of it gets: its own where they only permute a dense block, else row-major.
std::vector<int64_t> dense_strides(const TensorRef& tensor);
std::vector<int64_t> row_major_strides(std::span<const int64_t> shape);

// Elements as doubles. 64-bit integers lose low bits here: compare those as bytes.
std::vector<double> to_doubles(Dtype dtype, std::string_view contiguous);
double element_as_double(Dtype dtype, std::string_view contiguous, size_t index);
int64_t element_as_int(Dtype dtype, std::string_view contiguous, size_t index);  // of integer and bool tensors
void store_double(Dtype dtype, char* at, double value);                          // rounds to the dtype's nearest

std::vector<int64_t> unravel(std::span<const int64_t> shape, int64_t flat);

// The tensors of a value in order of traversal.
std::vector<Value*> tensors_of(Value& value);
std::vector<const Value*> tensors_of(const Value& value);
// "float32[16,64]"
std::string describe(const TensorRef& tensor);

}  // namespace kz::keck
