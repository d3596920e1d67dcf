#include "keck/sandbox/cgroup_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace kz::keck::sandbox {

bool put_text(const fs::path& file, std::string_view text) {
  const Fd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

uint64_t number_in(const fs::path& file, std::string_view key, uint64_t missing) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
  if (n <= 0) return missing;
  text[n] = '\0';
  std::string_view rest(text, static_cast<size_t>(n));
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    const bool match = key.empty() || (line.size() > key.size() && line.substr(0, key.size()) == key &&
                                       (line[key.size()] == ' ' || line[key.size()] == '\t'));
    if (match) return std::strtoull(line.data() + (key.empty() ? 0 : key.size()), nullptr, 10);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return missing;
}

void remove_group(const fs::path& dir) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    if (entry.is_directory(ignored)) remove_group(entry.path());
  }
  ::rmdir(dir.c_str());
}

}  // namespace kz::keck::sandbox
