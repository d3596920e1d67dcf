// Source files that a user names: read whole, or refused in one line that says where and what to do.
#pragma once

#include "base/files.h"
#include "base/layout.h"

namespace kz::keck {

// At most 1 MiB of UTF-8. Error "io" or "file".
Result<std::string> read_source(const fs::path& path);
// The folder of caches: as given, else layout.state / "keck".
fs::path state_folder(const std::string& given, const Layout& layout);

}  // namespace kz::keck
