// A tmpfs that is mounted nowhere: only who holds the descriptor sees it, and nothing is left when the last one closes
// it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "base/files.h"

namespace kz::keck::sandbox {

// The descriptor is the root folder, mode 0700, owned by `uid` if given. Error "host".
Result<Fd> detached_tmpfs(uint64_t bytes, std::optional<uid_t> uid);

}  // namespace kz::keck::sandbox
