#include "app/keck/files.h"

#include <cstdio>

#include "app/keck/commands.h"

namespace kz::keck {

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
