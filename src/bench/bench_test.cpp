#include <gtest/gtest.h>

#include <cstring>

#include "bench/tasks.h"
#include "bench/tensorboard.h"

namespace kz::bench {
namespace {

TEST(Crc32c, CheckValue) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);  // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
}

TEST(EventWriter, WritesFramedRecordsThatReadBack) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-bench-");
  ASSERT_TRUE(dir);
  {
    auto writer = EventWriter::open(dir->path(), "test");
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->scalar("coder/accuracy", 7, 0.5));
  }
  const std::string bytes = read_file(fs::directory_iterator(dir->path())->path()).value();
  size_t at = 0, records = 0;
  bool seen = false;
  while (at + 12 <= bytes.size()) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    ASSERT_LE(at + 16 + length, bytes.size());
    const std::string payload = bytes.substr(at + 12, length);
    uint32_t stored = 0;
    std::memcpy(&stored, bytes.data() + at + 12 + length, 4);
    const uint32_t crc = crc32c(payload);
    EXPECT_EQ(stored, ((crc >> 15) | (crc << 17)) + 0xA282EAD8U);
    seen = seen || payload.find("coder/accuracy") != std::string::npos;
    at += 16 + length;
    ++records;
  }
  EXPECT_EQ(at, bytes.size());
  EXPECT_EQ(records, 2u);
  EXPECT_TRUE(seen);
}

TEST(Tasks, LevelsAndNumbersGiveTheOrder) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-bench-");
  ASSERT_TRUE(dir);
  for (const char* name : {"level2/1_x.py", "level1/10_b.py", "level1/9_a.py"}) {
    ASSERT_TRUE(make_dirs((dir->path() / name).parent_path()));
    ASSERT_TRUE(write_file_atomic(dir->path() / name, "class Model: pass\n"));
  }
  const auto tasks = load_tasks(dir->path()).value();
  ASSERT_EQ(tasks.size(), 3u);
  EXPECT_EQ(tasks[0].name, "9_a");
  EXPECT_EQ(tasks[1].name, "10_b");
  EXPECT_EQ(tasks[2].level, 2);
}

TEST(Tasks, EmptyAndBrokenFoldersAreErrors) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-bench-");
  ASSERT_TRUE(dir);
  EXPECT_NE(load_tasks(dir->path()).error().message.find("no *.py task"), std::string::npos);
  EXPECT_EQ(load_tasks(dir->path() / "missing").error().code, "io");
  ASSERT_TRUE(write_file_atomic(dir->path() / "a.py", "\xff\xfe"));
  EXPECT_NE(load_tasks(dir->path()).error().message.find("not UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace kz::bench
