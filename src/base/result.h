// base: what every folder may use and that knows nothing of kernels or models.
// Result<T> is a value or an Error; expected failures are values, exceptions end one unit of work, assertions are our
// bugs.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace kz {

// What went wrong, where, and what to do about it. `code` is a short stable word ("config", "io", "parse", "port", …);
// `message` is one line for a person that names the place and the remedy.
struct Error {
  std::string code;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(std::string code, std::string message) {
  return tl::unexpected<Error>(Error{std::move(code), std::move(message)});
}

}  // namespace kz

// Returns from the enclosing function with the error of `expr`, if it has one.
#define KZ_TRY(expr)                                                               \
  do {                                                                             \
    if (auto&& kz_try_ = (expr); !kz_try_) return tl::unexpected(kz_try_.error()); \
  } while (false)

#define KZ_CONCAT_(a, b) a##b
#define KZ_CONCAT(a, b) KZ_CONCAT_(a, b)
// KZ_ASSIGN(auto x, expr): declares x from the value of a Result, or returns its error.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration takes none
#define KZ_ASSIGN(decl, expr)                                                                 \
  auto KZ_CONCAT(kz_r_, __LINE__) = (expr);                                                   \
  if (!KZ_CONCAT(kz_r_, __LINE__)) return tl::unexpected(KZ_CONCAT(kz_r_, __LINE__).error()); \
  decl = std::move(*KZ_CONCAT(kz_r_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)
