#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kz {
namespace {

std::string remedy(int error) {
  switch (error) {
    case ENOENT:
      return "; check the path";
    case EACCES:
    case EPERM:
      return "; check the permissions";
    case ENOSPC:
    case EDQUOT:
      return "; free some space and run it again, nothing was lost";
    default:
      return "";
  }
}

tl::unexpected<Error> io_error(const char* doing, const fs::path& path, int error) {
  return fail("io", std::string("cannot ") + doing + " " + path.string() + ": " + errno_text(error) + remedy(error));
}

Status write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace

std::string errno_text(int error) {
  char buffer[256];
  return strerror_r(error, buffer, sizeof buffer);
}

Result<std::string> read_file(const fs::path& path, uint64_t limit) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return io_error("read", path, errno);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return io_error("read", path, errno);
  if (S_ISDIR(st.st_mode)) return io_error("read", path, EISDIR);
  const auto too_large = [&] {
    return fail("io", path.string() + " is larger than the " + std::to_string(limit) + " bytes allowed here");
  };
  if (static_cast<uint64_t>(st.st_size) > limit) return too_large();
  std::string bytes;
  bytes.reserve(static_cast<size_t>(st.st_size));
  char buffer[1 << 16];
  while (true) {  // to the end, not to st_size: a file of /proc has size 0
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("read", path, errno);
    if (n == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(n));
    if (bytes.size() > limit) return too_large();
  }
}

Status write_file_atomic(const fs::path& path, std::string_view bytes) {
  std::error_code unknown;
  if (const auto there = fs::status(path, unknown); fs::exists(there) && !fs::is_regular_file(there))
    return fail("io", path.string() + " is no regular file: name a file to write to");  // root would replace a device
  static std::atomic<uint64_t> writes{0};  // threads that write the same file at once have a temporary each
  const fs::path temporary =
      path.string() + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(writes.fetch_add(1));
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return io_error("write", path, errno);
  Status written = write_all(fd.get(), bytes, path);
  if (written && ::fsync(fd.get()) != 0) written = io_error("write", path, errno);
  fd.reset();
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) written = io_error("write", path, errno);
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Status make_dirs(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return io_error("create folder", path, error.value());
  return {};
}

Result<TempDir> TempDir::make(const fs::path& parent, std::string_view prefix) {
  KZ_TRY(make_dirs(parent));
  std::string name = (parent / (std::string(prefix) + "XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) return io_error("create folder", name, errno);
  return TempDir(fs::path(name));
}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TempDir::~TempDir() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace kz
