// Making, writing and reading a corpus, with a validator that is a rule instead of a server.
#include "corpus/make_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "corpus/family.h"

namespace kz::corpus {
namespace {

using ::testing::HasSubstr;

Json verdict(const char* outcome, bool accepted) {
  return {{"outcome", outcome}, {"policy", {{"accepted", accepted}}}, {"headers", "slim"}, {"log_tail", "long"}};
}

CorpusOptions small() {
  CorpusOptions options;
  options.rows = 24;
  options.per_family = 3;
  options.chain.families = {"relu", "sigmoid", "mul_scalar"};
  options.chain.lengths = {0.5, 0.5};
  options.batch = 10;
  options.quiet = true;
  return options;
}

TEST(MakeCorpus, FillsEveryShareAndKeepsOnlyRightRows) {
  size_t calls = 0;
  // Every fifth row is refused: by a fail, a policy or a host's fault in turn.
  const Validate validate = [&](const std::vector<Row>& rows) -> Result<std::vector<Json>> {
    std::vector<Json> verdicts;
    for (size_t i = 0; i < rows.size(); ++i, ++calls)
      verdicts.push_back(calls % 5 != 0       ? verdict("pass", true)
                         : calls / 5 % 3 == 0 ? verdict("fail", false)
                         : calls / 5 % 3 == 1 ? verdict("pass", false)
                                              : verdict("unscored", false));
    return verdicts;
  };
  std::vector<Row> rows;
  const auto report = make_corpus(small(), validate, [&](const Row& row) { rows.push_back(row); });
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(rows.size(), 24u);
  EXPECT_EQ(report->rows, 24u);
  EXPECT_GT(report->unscored, 0u);
  EXPECT_EQ(report->refused.size(), report->rejected + report->unscored);
  for (const char* share : {"cpp/relu", "cpp/sigmoid", "cpp/mul_scalar", "triton/relu"})
    EXPECT_EQ(report->by_family.at(share), 4u) << share;
  for (const Row& row : rows) {
    EXPECT_TRUE(row.verdict["accepted"].get<bool>());
    EXPECT_FALSE(row.verdict.contains("log_tail")) << "only the brief is kept";
  }
}

TEST(MakeCorpus, SaysWhichFamilyStaysShort) {
  const Validate never = [](const std::vector<Row>& rows) -> Result<std::vector<Json>> {
    return std::vector<Json>(rows.size(), verdict("fail", false));
  };
  const auto report = make_corpus(small(), never, [](const Row&) {});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr(": only 0 of 4 rows after 50 draws"));
}

TEST(MakeCorpus, AnUnreachableServerEndsItWithoutAFile) {
  const auto folder = TempDir::make(fs::temp_directory_path(), "kz-corpus-");
  ASSERT_TRUE(folder);
  const Validate broken = [](const std::vector<Row>&) -> Result<std::vector<Json>> { return fail("connect", "gone"); };
  const auto report = write_corpus(folder->path() / "rows.jsonl", small(), broken);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, "connect");
  EXPECT_FALSE(fs::exists(folder->path() / "rows.jsonl"));
}

TEST(MakeCorpus, FilesAreReadBackAndBadLinesAreNamed) {
  const auto folder = TempDir::make(fs::temp_directory_path(), "kz-corpus-");
  ASSERT_TRUE(folder);
  const fs::path file = folder->path() / "rows.jsonl";
  const Validate yes = [](const std::vector<Row>& rows) -> Result<std::vector<Json>> {
    return std::vector<Json>(rows.size(), verdict("pass", true));
  };
  ASSERT_TRUE(write_corpus(file, small(), yes));
  const auto rows = read_corpus(file);
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->size(), 24u);

  const auto text = read_file(file);
  ASSERT_TRUE(write_file_atomic(file, *text + "{\"id\": 1}\n"));
  const auto bad = read_corpus(file);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("rows.jsonl:25"));
}

TEST(Tasks, AreWrittenInKernelBenchForm) {
  const auto folder = TempDir::make(fs::temp_directory_path(), "kz-tasks-");
  ASSERT_TRUE(folder);
  const auto tasks = make_heldout(3, 1, {});
  ASSERT_TRUE(tasks);
  ASSERT_TRUE(write_tasks(folder->path() / "tasks", *tasks));
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder->path() / "tasks")) {
    ++files;
    EXPECT_EQ(entry.path().extension(), ".py");
  }
  EXPECT_EQ(files, 3u);
  const std::string first = "1_" + join((*tasks)[0].families, "_") + ".py";
  EXPECT_EQ(*read_file(folder->path() / "tasks" / first), (*tasks)[0].module);
}

}  // namespace
}  // namespace kz::corpus
