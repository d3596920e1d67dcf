#include "app/text_io.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/text.h"

namespace kz::app {

Result<std::string> read_source(const fs::path& path) {
  constexpr uint64_t kLimit = 1 << 20;
  std::error_code error;
  if (fs::is_directory(path, error)) return fail("file", path.string() + " is a folder: give a Python file");
  const auto size = fs::file_size(path, error);
  if (!error && size > kLimit)
    return fail("file", path.string() + " has " + std::to_string(size) + " bytes; a source may have at most 1 MiB");
  KZ_ASSIGN(std::string text, read_file(path, kLimit));
  if (valid_utf8(text)) return text;
  size_t line = 1;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (!valid_utf8(std::string_view(text).substr(begin, end - begin))) break;
    begin = end + 1;
  }
  return fail("file", path.string() + ":" + std::to_string(line) + ": not valid UTF-8; save the file as UTF-8");
}

Status flush_output() {
  const bool before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !before) return {};
  return fail("io", "cannot write the output: " + errno_text(errno != 0 ? errno : EIO) +
                        "; free some space or choose another place for it, and run it again");
}

}  // namespace kz::app
