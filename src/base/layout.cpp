#include "base/layout.h"

#include <unistd.h>

#include <cstdlib>

namespace kz {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path find_on_path(const char* program) {
  const std::string path = environment("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const fs::path candidate = fs::path(path.substr(begin, end - begin)) / program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return {};
}

}  // namespace

Result<Layout> find_layout() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail("io", "cannot read /proc/self/exe: is /proc mounted?");

  Layout layout;
  layout.bin = executable.parent_path();
  layout.lib = layout.bin.parent_path() / "lib";
  layout.root = environment("KERNELZERO_HOME");
  if (layout.root.empty()) {
    for (fs::path folder = layout.bin; folder.has_relative_path(); folder = folder.parent_path()) {
      if (fs::is_directory(folder / "python" / "keck_worker", error)) {
        layout.root = folder;
        break;
      }
    }
  }
  if (layout.root.empty() || !fs::is_directory(layout.root / "python" / "keck_worker", error)) {
    return fail("io", "no python/keck_worker above " + layout.bin.string() +
                          ": run from a checkout or a `make dist` tree, or set KERNELZERO_HOME");
  }
  layout.worker = layout.root / "python";
  layout.slim_headers = layout.root / "src" / "headers" / "slim";

  layout.python = environment("KERNELZERO_PYTHON");
  if (layout.python.empty() && fs::exists(layout.root / ".venv" / "bin" / "python", error)) {
    layout.python = layout.root / ".venv" / "bin" / "python";
  }
  if (layout.python.empty()) layout.python = find_on_path("python3");
  if (layout.python.empty()) return fail("io", "no Python: run `make setup`, or set KERNELZERO_PYTHON");

  layout.state = environment("KERNELZERO_STATE");
  if (layout.state.empty()) {
    const std::string cache = environment("XDG_CACHE_HOME"), home = environment("HOME");
    layout.state =
        (!cache.empty() ? fs::path(cache) : fs::path(home.empty() ? "/tmp" : home) / ".cache") / "kernelzero";
  }
  return layout;
}

}  // namespace kz
