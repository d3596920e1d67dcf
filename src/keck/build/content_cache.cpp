#include "keck/build/content_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/hash.h"

namespace kz::keck {
namespace {

// File: magic, size of the text, sha256 of text and object (a file that a bad disk changed is no entry), text, object.
constexpr std::string_view kMagic = "KZBUILD1";
constexpr size_t kHash = 64;
constexpr size_t kHead = 8 + 8 + kHash;
constexpr uint64_t kEntryBytes = 128ULL << 20;

}  // namespace

Result<std::unique_ptr<ContentCache>> ContentCache::open(const fs::path& dir, uint64_t bytes) {
  auto cache = std::unique_ptr<ContentCache>(new ContentCache(dir / "v1", bytes));
  KZ_TRY(make_dirs(cache->dir_));
  cache->scan();
  return cache;
}

fs::path ContentCache::file(const std::string& key) const { return dir_ / key.substr(0, 2) / key; }

void ContentCache::scan() {
  struct Found {
    fs::file_time_type time;
    std::string key;
    uint64_t bytes;
  };
  std::vector<Found> found;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(dir_, error)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file(error)) continue;
    if (name.size() == kHash) {
      found.push_back({entry.last_write_time(error), name, entry.file_size(error)});
    } else {
      fs::remove(entry.path(), error);  // a temporary file of a writer that was killed
    }
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.time < b.time; });
  for (const Found& f : found) {
    places_[f.key] = {f.bytes, uses_.insert(uses_.end(), f.key)};
    bytes_ += f.bytes;
  }
  evict();
}

void ContentCache::forget(const std::string& key) {
  const auto it = places_.find(key);
  if (it == places_.end()) return;
  bytes_ -= it->second.bytes;
  uses_.erase(it->second.use);
  places_.erase(it);
}

void ContentCache::evict() {
  while (bytes_ > cap_ && !uses_.empty()) {
    const std::string key = uses_.front();
    std::error_code error;
    fs::remove(file(key), error);
    forget(key);
    ++evicted_;
  }
}

std::optional<ContentCache::Entry> ContentCache::get(const std::string& key) {
  const auto bytes = read_file(file(key), kEntryBytes);
  std::lock_guard lock(mutex_);
  if (!bytes) {
    forget(key);
    return std::nullopt;
  }
  uint64_t text_size = 0;
  const bool headed = bytes->size() >= kHead && bytes->compare(0, kMagic.size(), kMagic) == 0;
  if (headed) std::memcpy(&text_size, bytes->data() + 8, 8);
  const std::string_view rest = headed ? std::string_view(*bytes).substr(kHead) : std::string_view();
  if (!headed || text_size > rest.size() || std::string_view(*bytes).substr(16, kHash) != sha256_hex(rest)) {
    std::error_code error;
    fs::remove(file(key), error);
    forget(key);
    return std::nullopt;
  }
  forget(key);
  places_[key] = {bytes->size(), uses_.insert(uses_.end(), key)};
  bytes_ += bytes->size();
  ::utimensat(AT_FDCWD, file(key).c_str(), nullptr, 0);  // so that the next start knows the order
  return Entry{std::string(rest.substr(0, text_size)), std::string(rest.substr(text_size))};
}

Status ContentCache::put(const std::string& key, std::string_view text, std::string_view object) {
  const std::string rest = std::string(text) + std::string(object);
  const uint64_t text_size = text.size();
  std::string bytes(kMagic);
  bytes.append(reinterpret_cast<const char*>(&text_size), 8);
  bytes += sha256_hex(rest);
  bytes += rest;
  KZ_TRY(make_dirs(file(key).parent_path()));
  KZ_TRY(write_file_atomic(file(key), bytes));
  std::lock_guard lock(mutex_);
  forget(key);
  places_[key] = {bytes.size(), uses_.insert(uses_.end(), key)};
  bytes_ += bytes.size();
  evict();
  return {};
}

uint64_t ContentCache::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}
size_t ContentCache::size() const {
  std::lock_guard lock(mutex_);
  return places_.size();
}
uint64_t ContentCache::evicted() const {
  std::lock_guard lock(mutex_);
  return evicted_;
}

}  // namespace kz::keck
