#include "keck/build/content_cache.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/hash.h"

namespace kz::keck {
namespace {

std::string key(int i) { return sha256_hex(std::to_string(i)); }

class ContentCacheTest : public ::testing::Test {
 protected:
  ContentCacheTest() : dir_(*TempDir::make(fs::temp_directory_path(), "kz-cache-")) {}
  std::unique_ptr<ContentCache> open(uint64_t bytes = 1 << 20) { return *ContentCache::open(dir_.path(), bytes); }
  fs::path file(int i) { return dir_.path() / "v1" / key(i).substr(0, 2) / key(i); }
  TempDir dir_;
};

TEST_F(ContentCacheTest, KeepsTextAndObjectAcrossRuns) {
  ASSERT_TRUE(open()->put(key(1), "text", std::string("obj\0ect", 7)));
  const auto entry = open()->get(key(1));
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->text, "text");
  EXPECT_EQ(entry->object, std::string("obj\0ect", 7));
  EXPECT_FALSE(open()->get(key(2)));
}

TEST_F(ContentCacheTest, EvictsTheLeastRecentlyUsed) {
  const std::string object(1000, 'x');
  auto cache = open(4500);  // four of about 1,080 bytes
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(cache->put(key(i), "", object));
  EXPECT_TRUE(cache->get(key(0)));  // now the most recent
  ASSERT_TRUE(cache->put(key(4), "", object));
  EXPECT_EQ(cache->evicted(), 1u);
  EXPECT_TRUE(cache->get(key(0)));
  EXPECT_FALSE(cache->get(key(1)));
  EXPECT_FALSE(fs::exists(file(1)));
  EXPECT_LE(cache->bytes(), 4500u);
  EXPECT_LE(open(2000)->size(), 1u);  // a smaller cap at the next start
}

TEST_F(ContentCacheTest, ADamagedEntryIsNoEntry) {
  auto cache = open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cache->put(key(i), "text", "object"));
  std::string bytes = *read_file(file(0));
  bytes.back() ^= 1;
  ASSERT_TRUE(write_file_atomic(file(0), bytes));
  ASSERT_TRUE(write_file_atomic(file(1), bytes.substr(0, 20)));
  ASSERT_TRUE(write_file_atomic(file(2), ""));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(cache->get(key(i)));
  EXPECT_FALSE(fs::exists(file(0)));
}

TEST_F(ContentCacheTest, LeavingsOfAKilledWriterGo) {
  ASSERT_TRUE(open()->put(key(1), "", "object"));
  const fs::path leaving = file(1).string() + ".tmp.123";
  ASSERT_TRUE(write_file_atomic(leaving, "half"));
  EXPECT_EQ(open()->size(), 1u);
  EXPECT_FALSE(fs::exists(leaving));
}

TEST_F(ContentCacheTest, ManyThreads) {
  auto cache = open(20000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        // The broker never writes one key from two threads; it reads what another may evict just now.
        EXPECT_TRUE(cache->put(key(4 * i + t), std::to_string(i), std::string(500, 'o')));
        const auto entry = cache->get(key(4 * i + (t + 1) % 4));
        EXPECT_TRUE(!entry || entry->object.size() == 500u);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_LE(cache->bytes(), 20000u);
}

}  // namespace
}  // namespace kz::keck
