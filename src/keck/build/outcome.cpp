#include "keck/build/outcome.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace kz::keck {

std::string Outcome::to_text() const {
  return dump_json({{"ok", ok}, {"reason", reason}, {"log", log}, {"headers", headers}, {"fallback", fallback}});
}

std::optional<Outcome> Outcome::from_text(std::string_view text, std::string_view object) {
  const auto json = parse_json(text, "build cache");
  if (!json || !json->is_object()) return std::nullopt;
  Outcome outcome;
  outcome.ok = json->value("ok", false);
  outcome.reason = json->value("reason", "");
  outcome.log = json->value("log", "");
  outcome.headers = json->value("headers", "");
  outcome.fallback = json->value("fallback", "");
  outcome.object = object;
  if (outcome.ok == object.empty()) return std::nullopt;
  return outcome;
}

Result<Fd> sealed_memfd(std::string_view bytes) {
  Fd fd(::memfd_create("keck-extension", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail("io", "memfd_create: " + errno_text(errno));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail("io", "memfd: " + errno_text(errno));
    done += static_cast<size_t>(n);
  }
  ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  return fd;
}

std::string read_all(const Fd& object) {
  struct stat status{};
  if (::fstat(object.get(), &status) != 0) return "";
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::pread(object.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n <= 0) return "";
    done += static_cast<size_t>(n);
  }
  return bytes;
}

BuildResult to_result(const Outcome& outcome, const std::string& name, const std::string& cache) {
  BuildResult result;
  result.ok = outcome.ok;
  result.reason = outcome.reason;
  result.log = outcome.log;
  result.headers = outcome.headers;
  result.fallback = outcome.fallback;
  result.cache = cache;
  result.module_name = name;
  result.cpu_seconds = cache == "miss" ? outcome.cpu_seconds : 0;
  if (!outcome.ok) return result;
  auto fd = sealed_memfd(outcome.object);
  if (fd) {
    result.object = std::move(*fd);
  } else {
    result.ok = false;
    result.reason = "toolchain";
    result.log = fd.error().message + "\n";
  }
  return result;
}

}  // namespace kz::keck
