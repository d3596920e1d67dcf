#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/random.h"
#include "base/text.h"

namespace kz {
namespace {

TEST(Hash, KnownDigests) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(xxhash64(""), 0xEF46DB3751D8E999ULL);
}

TEST(Random, SplitMixStreamIsTheReferenceOne) {
  Rng rng(1234567);  // Vigna's splitmix64.c, first outputs for this seed
  EXPECT_EQ(rng(), 6457827717110365317ULL);
  EXPECT_EQ(rng(), 3203168211198807973ULL);
}

TEST(Random, DerivedSeedsDependOnEachPart) {
  EXPECT_EQ(derive_seed(1, "a", 2), derive_seed(1, "a", 2));
  EXPECT_NE(derive_seed(1, "a", 2), derive_seed(2, "a", 2));
  EXPECT_NE(derive_seed(1, "a", 2), derive_seed(1, "b", 2));
  EXPECT_NE(derive_seed(1, "a", 2), derive_seed(1, "a", 3));
}

TEST(Random, BelowCoversItsRange) {
  Rng rng(7);
  int seen[5] = {};
  for (int i = 0; i < 1000; ++i) ++seen[rng.below(5)];
  for (const int n : seen) EXPECT_GT(n, 120);
}

TEST(Json, BadTextIsAnErrorWithItsPlace) {
  EXPECT_EQ(parse_json("{\"a\": 1", "request").error().message, "request: not valid JSON at byte 8");
  EXPECT_EQ(parse_json(std::string(100000, '['), "request").error().code, "json");
}

TEST(Json, NonFiniteNumbersSurvive) {
  EXPECT_EQ(json_number(INFINITY), "inf");
  EXPECT_TRUE(std::isnan(number_from_json(json_number(NAN))));
  EXPECT_EQ(number_from_json(json_number(-INFINITY)), -INFINITY);
  EXPECT_EQ(dump_json(Json("\xff")), "\"\xEF\xBF\xBD\"");
}

TEST(Files, AtomicWriteReplacesAndReadsBack) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-base-");
  ASSERT_TRUE(dir);
  const fs::path path = dir->path() / "x";
  ASSERT_TRUE(write_file_atomic(path, "one"));
  ASSERT_TRUE(write_file_atomic(path, "two"));
  EXPECT_EQ(read_file(path).value(), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir->path()), {}), 1);
}

TEST(Files, ErrorsNameThePlaceAndTheRemedy) {
  EXPECT_EQ(read_file("/nowhere/x").error().message,
            "cannot read /nowhere/x: No such file or directory; check the path");
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-base-");
  ASSERT_TRUE(write_file_atomic(dir->path() / "big", std::string(100, 'x')));
  EXPECT_EQ(read_file(dir->path() / "big", 10).error().code, "io");
}

TEST(Files, FullDiskSaysSoAndLeavesTheOldFile) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-base-");
  ASSERT_TRUE(dir);
  if (::mount("tmpfs", dir->path().c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "a small disk needs mount(2)";
  const fs::path path = dir->path() / "x";
  EXPECT_TRUE(write_file_atomic(path, "old"));
  const auto status = write_file_atomic(path, std::string(1 << 20, 'x'));
  const std::string kept = read_file(path).value_or("");
  const auto files = std::distance(fs::directory_iterator(dir->path()), {});
  ::umount(dir->path().c_str());
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("No space left on device; free some space"), std::string::npos);
  EXPECT_EQ(kept, "old");
  EXPECT_EQ(files, 1);
}

// A device would do as well, and be gone if this failed.
TEST(Files, AtomicWriteLeavesWhatIsNoFile) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-base-");
  const fs::path pipe = dir->path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto status = write_file_atomic(pipe, "x");
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find(pipe.string() + " is no regular file"), std::string::npos);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(Text, NearestFindsAMisspelling) {
  EXPECT_EQ(nearest("train.ls", {"train.lr", "seed", "rounds"}), "train.lr");
  EXPECT_EQ(nearest("zzzzzz", {"train.lr", "seed"}), "");
}

TEST(Text, Utf8) {
  EXPECT_TRUE(valid_utf8("plain, é, 中, 😀"));
  EXPECT_FALSE(valid_utf8("\xC0\x80"));          // overlong
  EXPECT_FALSE(valid_utf8("\xED\xA0\x80"));      // surrogate
  EXPECT_FALSE(valid_utf8("\xE4\xB8"));          // cut short
  EXPECT_FALSE(valid_utf8("\xF5\x80\x80\x80"));  // beyond U+10FFFF
}

TEST(Text, SplitAndJoin) {
  EXPECT_EQ(join(split("a,b,,c", ','), "|"), "a|b||c");
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(trim("  x y\n"), "x y");
}

}  // namespace
}  // namespace kz
