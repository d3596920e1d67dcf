// Results of builds by content, on disk: what was built, or why it can't be. Safe against kill -9 (an entry is whole or
// not there) and against other processes on the same folder. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/files.h"

namespace kz::keck {

class ContentCache {
 public:
  // Folders of another schema version are left alone; ours is `dir`/v1. Reads what is there, oldest first.
  static Result<std::unique_ptr<ContentCache>> open(const fs::path& dir, uint64_t bytes);

  // The entry's text and object ("" without one); counts as a use.
  struct Entry {
    std::string text, object;
  };
  std::optional<Entry> get(const std::string& key);
  // Evicts the least recently used beyond the cap. A full disk is an Error; the cache stays as it was.
  Status put(const std::string& key, std::string_view text, std::string_view object);

  uint64_t bytes() const;
  size_t size() const;
  uint64_t evicted() const;

 private:
  struct Place {
    uint64_t bytes;
    std::list<std::string>::iterator use;
  };

  ContentCache(fs::path dir, uint64_t cap) : dir_(std::move(dir)), cap_(cap) {}
  fs::path file(const std::string& key) const;
  void scan();
  void forget(const std::string& key);
  void evict();

  fs::path dir_;
  uint64_t cap_;
  mutable std::mutex mutex_;
  std::list<std::string> uses_;  // least recent first
  std::unordered_map<std::string, Place> places_;
  uint64_t bytes_ = 0, evicted_ = 0;
};

}  // namespace kz::keck
