// Folders that a user names, or does not.
#pragma once

#include "base/files.h"
#include "base/layout.h"

namespace kz::keck {

// The folder of caches: as given, else layout.state / "keck".
fs::path state_folder(const std::string& given, const Layout& layout);

}  // namespace kz::keck
