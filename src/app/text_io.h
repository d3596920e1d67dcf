// What both programs read from and say to a person: sources whole or refused in one line, output that reached its file.
#pragma once

#include <string>

#include "base/files.h"

namespace kz::app {

// A Python source that a user names: at most 1 MiB of UTF-8. Errors "io" and "file" say where and what to do.
Result<std::string> read_source(const fs::path& path);

// Whether what was printed is out. A disk that is full behind `> FILE` shows only here. Error "io".
Status flush_output();

}  // namespace kz::app
