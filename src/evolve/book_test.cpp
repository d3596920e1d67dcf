#include "evolve/book.h"

#include <gtest/gtest.h>

#include "evolve/toy_world.h"

namespace kz::evolve {
namespace {

class BookTest : public testing::Test {
 protected:
  TempDir dir_ = *TempDir::make(toy::scratch(), "kevolve-book-");
  Store store_ = *Store::create(dir_.path() / "run.db", {});
  toy::ToyJudge judge_;
};

keck::EvaluationRequest request(const std::string& candidate, const std::string& module = "m") {
  keck::EvaluationRequest r;
  r.module = module;
  r.candidate = candidate;
  r.backend = "cpp";
  return r;
}

TEST_F(BookTest, EqualTextsAreAskedOnce) {
  Book book(store_, judge_, nullptr);
  book.begin(0);
  for (size_t i = 0; i < 6; ++i) ASSERT_TRUE(book.ask(i, request(i % 2 ? "right" : "wrong")));
  size_t told = 0;
  ASSERT_TRUE(book.drain([&](size_t n) { told += n; }));
  EXPECT_EQ(told, 6u);
  EXPECT_EQ(judge_.asked, 2);
  EXPECT_EQ(book.counts().verdicts, 6);
  EXPECT_EQ(book.counts().hits, 4);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(book.verdict(i).verdict.right(), i % 2 == 1) << i;

  book.begin(1);  // another step: the store knows it
  ASSERT_TRUE(book.ask(0, request("right")));
  ASSERT_TRUE(book.ask(1, request("right", "another module")));
  ASSERT_TRUE(book.drain());
  EXPECT_EQ(judge_.asked, 3);
  EXPECT_EQ(book.counts().hits, 1);
}

TEST_F(BookTest, AStepBegunAgainAsksNothingAndCountsTheSame) {
  {
    Book book(store_, judge_, nullptr);
    book.begin(5);
    ASSERT_TRUE(book.ask(0, request("right")));
    ASSERT_TRUE(book.ask(1, request("wrong")));
    ASSERT_TRUE(book.drain());
  }
  Book book(store_, judge_, nullptr);
  book.begin(5);
  ASSERT_TRUE(book.ask(0, request("right")));
  ASSERT_TRUE(book.ask(1, request("wrong")));
  ASSERT_TRUE(book.ask(2, request("wrong")));
  ASSERT_TRUE(book.drain());
  EXPECT_EQ(judge_.asked, 2) << "verdicts of the interrupted step were asked for again";
  EXPECT_EQ(book.counts().hits, 1) << "hits must not depend on the interruption";
}

TEST_F(BookTest, AHostsFaultIsAskedAgainInALaterStepOnly) {
  judge_.unscored_every = 1;
  Book book(store_, judge_, nullptr);
  book.begin(0);
  ASSERT_TRUE(book.ask(0, request("right")));
  ASSERT_TRUE(book.ask(1, request("right")));
  ASSERT_TRUE(book.drain());
  EXPECT_EQ(judge_.asked, 1);
  EXPECT_FALSE(book.verdict(0).verdict.scored());
  judge_.unscored_every = 0;
  book.begin(1);
  ASSERT_TRUE(book.ask(0, request("right")));
  ASSERT_TRUE(book.drain());
  EXPECT_EQ(judge_.asked, 2);
  EXPECT_TRUE(book.verdict(0).verdict.right());

  // A replay gives the same answers in the same order, without the judge.
  Store other = *Store::create(dir_.path() / "replay.db", {});
  toy::ToyJudge silent;
  Book again(other, silent, &store_);
  again.begin(0);
  ASSERT_TRUE(again.ask(0, request("right")));
  ASSERT_TRUE(again.drain());
  EXPECT_FALSE(again.verdict(0).verdict.scored());
  again.begin(1);
  ASSERT_TRUE(again.ask(0, request("right")));
  ASSERT_TRUE(again.drain());
  EXPECT_TRUE(again.verdict(0).verdict.right());
  EXPECT_EQ(silent.asked, 0);
  const auto unknown = again.ask(1, request("something else"));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, "replay");
}

// Answers that say that there is no server.
class GoneJudge : public toy::ToyJudge {
 public:
  std::optional<std::pair<size_t, keck::Verdict>> next_verdict(std::chrono::duration<double> wait) override {
    auto got = toy::ToyJudge::next_verdict(wait);
    if (got) got->second.outcome = keck::Outcome::kUnscored, got->second.reason = "server_unreachable";
    return got;
  }
};

TEST_F(BookTest, AServerThatIsGoneStopsTheRunWithNothingRecorded) {
  GoneJudge gone;
  Book book(store_, gone, nullptr);
  book.begin(0);
  ASSERT_TRUE(book.ask(0, request("right")));
  const auto drained = book.drain();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, "connect");
  Book again(store_, judge_, nullptr);
  again.begin(0);
  ASSERT_TRUE(again.ask(0, request("right")));
  ASSERT_TRUE(again.drain());
  EXPECT_TRUE(again.verdict(0).verdict.right());
}

TEST_F(BookTest, GateReportsAreKeptByModuleAndList) {
  Book book(store_, judge_, nullptr);
  keck::ModuleRequest r;
  r.module = "class Model: level 1 size 5";
  r.apis = {"a"};
  book.begin(0);
  ASSERT_TRUE(book.ask(0, r));
  ASSERT_TRUE(book.ask(1, r));
  r.apis = {"b"};
  ASSERT_TRUE(book.ask(2, r));
  ASSERT_TRUE(book.drain());
  EXPECT_EQ(judge_.modules_asked, 2);
  EXPECT_EQ(book.counts().report_hits, 1);
  EXPECT_EQ(book.report(2).report.outcome, keck::Outcome::kPass);
}

}  // namespace
}  // namespace kz::evolve
