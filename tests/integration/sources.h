// Modules and kernels for tests of the whole chain.
#pragma once

#include <string>

namespace kz::keck {

extern const std::string kReluModule;                            // relu(x) * 2 of 16 x 64
std::string relu_kernel(const std::string& positive = "2 * v");  // C++; `positive` is what v > 0 becomes

}  // namespace kz::keck
