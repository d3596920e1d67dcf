#include "app/keck/files.h"

#include <cstdio>

#include "app/keck/commands.h"
#include "base/text.h"

namespace kz::keck {

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

fs::path state_folder(const std::string& given, const Layout& layout) {
  return given.empty() ? layout.state / "keck" : fs::path(given);
}

int complain(const Error& error) {
  std::string line = error.message;
  for (char& c : line)
    if (c == '\n') c = ' ';
  std::fprintf(stderr, "keck: %s\n", line.c_str());
  return kExitUsage;
}

}  // namespace kz::keck
