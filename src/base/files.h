// Files and folders. Writes that must survive a kill are atomic (temporary, fsync, rename); a full disk is an Error
// that says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kz {

namespace fs = std::filesystem;

// Error code "io": the message names the path, the cause and the remedy. Files over `limit` bytes are refused.
Result<std::string> read_file(const fs::path& path, uint64_t limit = 1ULL << 30);
Status write_file_atomic(const fs::path& path, std::string_view bytes);
Status make_dirs(const fs::path& path);
std::string errno_text(int error);  // "No space left on device"

// A folder that is removed with everything in it when its owner goes.
class TempDir {
 public:
  static Result<TempDir> make(const fs::path& parent, std::string_view prefix);
  TempDir(TempDir&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TempDir& operator=(TempDir&& other) noexcept;
  TempDir(const TempDir&) = delete;
  ~TempDir();
  const fs::path& path() const { return path_; }

 private:
  explicit TempDir(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// Owner of a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  ~Fd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    int f = fd_;
    fd_ = -1;
    return f;
  }
  void reset();

 private:
  int fd_ = -1;
};

}  // namespace kz
