#include "keck/job/journal.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace kz::keck {
namespace {

class JournalTest : public testing::Test {
 protected:
  JournalTest() : folder_(*TempDir::make(fs::temp_directory_path(), "kdaemon_journal")) {
    options_.file = folder_.path() / "journal.db";
  }
  std::string refusal() {
    auto journal = Journal::open(options_);
    return journal ? "opened" : journal.error().code + ": " + journal.error().message;
  }
  void sql(const std::string& text) { SQLite::Database(options_.file.string(), SQLite::OPEN_READWRITE).exec(text); }

  TempDir folder_;
  JournalOptions options_;
};

TEST_F(JournalTest, RefusesByNameWhatANewerProgramWrote) {
  ASSERT_EQ(refusal(), "opened");
  sql("PRAGMA user_version=99");
  const std::string why = refusal();
  EXPECT_EQ(why.rfind("version: ", 0), 0u) << why;
  EXPECT_NE(why.find("schema 99"), std::string::npos) << why;
  EXPECT_NE(why.find(options_.file.string()), std::string::npos) << why;
}

TEST_F(JournalTest, RefusesFilesOfOtherPrograms) {
  ASSERT_TRUE(write_file_atomic(options_.file, std::string(4096, 'x')));
  EXPECT_EQ(refusal().rfind("version: ", 0), 0u);
  fs::remove(options_.file);
  SQLite::Database(options_.file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE t(x)");
  EXPECT_NE(refusal().find("another program"), std::string::npos);
}

TEST_F(JournalTest, IsOneDaemonsAtATime) {
  auto journal = Journal::open(options_);
  ASSERT_TRUE(journal);
  options_.lock_wait_s = 0.1;
  EXPECT_NE(refusal().find("another keck uses"), std::string::npos);
  EXPECT_TRUE(Journal::in_use(options_.file));
  options_.lock_wait_s = 10;
  std::jthread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    journal->reset();
  });
  EXPECT_EQ(refusal(), "opened") << "one that is about to go is waited for";
  late.join();
  EXPECT_FALSE(Journal::in_use(options_.file));
  EXPECT_EQ(refusal(), "opened");
}

TEST_F(JournalTest, AFolderThatCannotBeIsAnErrorThatNamesIt) {
  options_.file = "/proc/none/journal.db";
  const std::string why = refusal();
  EXPECT_EQ(why.rfind("io: ", 0), 0u) << why;
  EXPECT_NE(why.find("/proc/none"), std::string::npos) << why;
}

TEST_F(JournalTest, AddsAllOrNone) {
  auto journal = *Journal::open(options_);
  JournalJob a{"1", "c", "", "", JobKind::kEvaluation, JobState::kQueued, 0, 0, "{}"};
  JournalJob twin = a;
  EXPECT_FALSE(journal->add({a, twin}));
  EXPECT_TRUE(journal->unfinished()->empty());
  EXPECT_TRUE(journal->add({a}));
  EXPECT_EQ(journal->unfinished()->size(), 1u);
}

TEST_F(JournalTest, TheFirstAnswerOfAJobStands) {
  auto journal = *Journal::open(options_);
  ASSERT_TRUE(journal->add({{"1", "c", "", "", JobKind::kEvaluation, JobState::kQueued, 0, 0, "{}"}}));
  ASSERT_TRUE(journal->finished({{"1", JobState::kDone, "{\"n\": 1}"}}));
  ASSERT_TRUE(journal->finished({{"1", JobState::kDone, "{\"n\": 2}"}}));
  EXPECT_EQ(journal->find("1").value()->answer["n"], 1);
  EXPECT_EQ(journal->find("2").value(), std::nullopt);
}

TEST_F(JournalTest, EvictsTheOldestResultsOverTheCap) {
  options_.result_cache_bytes = 10000;
  auto journal = *Journal::open(options_);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(journal->cache("key" + std::to_string(i), std::string(1000, 'a')));
    EXPECT_TRUE(journal->cached("key0")) << i;  // used again and again: never the oldest
  }
  EXPECT_LE(journal->sizes().cached_bytes, options_.result_cache_bytes);
  EXPECT_GE(journal->sizes().cached_results, 7u);
  EXPECT_TRUE(journal->cached("key19"));
  EXPECT_FALSE(journal->cached("key1"));
}

TEST_F(JournalTest, ForgetsFinishedJobsAfterTheirTimeAndKeepsSequenceNumbersGrowing) {
  options_.keep_s = -1;
  {
    auto journal = *Journal::open(options_);
    ASSERT_TRUE(journal->add({{"1", "c", "batch-01", "k", JobKind::kEvaluation, JobState::kQueued, 0, 0, "{}"},
                              {"2", "c", "batch-01", "l", JobKind::kEvaluation, JobState::kQueued, 0, 0, "{}"}}));
    ASSERT_TRUE(journal->finished({{"1", JobState::kDone, "{}"}}));
    ASSERT_TRUE(journal->prune());
    EXPECT_EQ(journal->find("1").value(), std::nullopt);
    EXPECT_EQ(journal->sizes().jobs, 1u);
  }
  auto journal = *Journal::open(options_);
  ASSERT_TRUE(journal->finished({{"2", JobState::kDone, "{}"}}));
  EXPECT_EQ(journal->find("2").value()->sequence, 2u);
}

}  // namespace
}  // namespace kz::keck
