// What a built extension links to, read from the object itself: code that goes past torch's dispatcher, where the audit
// of a run would not see it (threats.md E23, E28). Nothing of the object is executed.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kz::keck {

// A name that makes an extension one that does not compute by itself: at::native and at::cpu kernels, BLAS, LAPACK,
// oneDNN and MKL, and dlopen and dlsym, behind which any of them may stand. Empty: there is none. Error "elf": not a
// shared object of this machine.
Result<std::string> borrowed_compute(std::string_view object);
Result<std::string> borrowed_compute(int fd);

// Whether one undefined symbol is such a name.
bool is_borrowed(std::string_view symbol);

}  // namespace kz::keck
