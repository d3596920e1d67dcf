// The test corpus with known verdicts: enough of each kind, and the files in data/verdicts are what the tables make.
// KZ_WRITE_VERDICTS=1 writes them anew.
#include "corpus/known_verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/files.h"

namespace kz::corpus {
namespace {

using ::testing::HasSubstr;

class KnownVerdicts : public ::testing::TestWithParam<std::string> {};

TEST_P(KnownVerdicts, AtLeastFortyRightAndFortyWrong) {
  const auto list = make_known_verdicts(GetParam(), 1);
  ASSERT_TRUE(list) << list.error().message;
  size_t right = 0, wrong = 0;
  std::set<std::string> ids, mutations, reasons;
  for (const KnownVerdict& row : *list) {
    (row.right ? right : wrong)++;
    EXPECT_EQ(row.right, row.mutation.empty());
    EXPECT_TRUE(ids.insert(row.id).second) << row.mutation;
    mutations.insert(row.mutation);
    reasons.insert(row.reason);
  }
  EXPECT_GE(right, 40u);
  EXPECT_GE(wrong, 40u);
  EXPECT_GE(mutations.size(), 40u);
  for (const char* reason : {"wrong_values", "non_finite", "shape", "dtype", "structure", "no_model_new",
                             "syntax_error", "import_error", "exception", "torch_compute", "input_mutated"})
    EXPECT_TRUE(reasons.contains(reason)) << reason;
}

TEST_P(KnownVerdicts, FilesAreUpToDate) {
  const auto list = make_known_verdicts(GetParam(), 1);
  ASSERT_TRUE(list) << list.error().message;
  std::string text;
  for (const KnownVerdict& row : *list) text += dump_json(to_json(row)) + "\n";
  const fs::path file = "data/verdicts/" + GetParam() + ".jsonl";
  if (std::getenv("KZ_WRITE_VERDICTS")) {
    ASSERT_TRUE(write_file_atomic(file, text));
  }
  const auto stored = read_file(file);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_TRUE(*stored == text) << file << " is old: run this test once with KZ_WRITE_VERDICTS=1";
}

INSTANTIATE_TEST_SUITE_P(Backends, KnownVerdicts, ::testing::Values("cpp", "triton"));

TEST(Difference, NamesWhatDiffers) {
  const KnownVerdict known{.id = "ab",
                           .backend = "cpp",
                           .mutation = "zeros",
                           .outcome = "fail",
                           .stage = "compare",
                           .reason = "wrong_values|non_finite"};
  auto verdict = [](const char* outcome, const char* stage, const char* reason, bool accepted) {
    return Json{{"outcome", outcome}, {"stage", stage}, {"reason", reason}, {"policy", {{"accepted", accepted}}}};
  };
  EXPECT_EQ(difference(known, verdict("fail", "compare", "non_finite", false)), "");
  EXPECT_THAT(difference(known, verdict("pass", "", "", true)), HasSubstr("counted as right"));
  EXPECT_THAT(difference(known, verdict("fail", "run", "exception", false)), HasSubstr("fail/run/exception"));
}

TEST(KnownVerdict, SurvivesJson) {
  const auto list = make_known_verdicts("cpp", 3);
  ASSERT_TRUE(list);
  const auto again = known_verdict_from_json(to_json(list->back()));
  ASSERT_TRUE(again);
  EXPECT_EQ(to_json(*again), to_json(list->back()));
  EXPECT_FALSE(known_verdict_from_json(Json{{"id", "x"}}));
}

}  // namespace
}  // namespace kz::corpus
