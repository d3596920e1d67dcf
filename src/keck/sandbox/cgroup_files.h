// Small reads and writes of control files. A kernel file takes a value in one write or refuses it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/files.h"

namespace kz::keck::sandbox {

bool put_text(const fs::path& file, std::string_view text);
// The first number of the file, or after `key ` at the start of a line; `missing` where there is none.
uint64_t number_in(const fs::path& file, std::string_view key = {}, uint64_t missing = 0);
// Removes a group and the groups below it; what has processes stays.
void remove_group(const fs::path& dir);

}  // namespace kz::keck::sandbox
