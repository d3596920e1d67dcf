#include "evolve/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "corpus/split.h"
#include "evolve/rollouts.h"

namespace kz::evolve {
namespace {

EvaluationSample sample(int64_t task, bool right, bool scored = true, const char* kind = "sample") {
  EvaluationSample s;
  s.task = task;
  s.kind = kind;
  s.right = right;
  s.scored = scored;
  return s;
}

TEST(Evaluation, UnscoredSamplesAreLeftOut) {
  EvaluationRecord e;
  e.tasks.resize(3);
  e.samples = {sample(0, true), sample(0, false),        sample(0, false, false),        sample(1, true),
               sample(1, true), sample(2, false, false), sample(0, true, true, "greedy")};
  const auto accuracy = task_accuracy(e, "sample");
  EXPECT_DOUBLE_EQ(accuracy[0], 0.5);
  EXPECT_DOUBLE_EQ(accuracy[1], 1.0);
  EXPECT_TRUE(std::isnan(accuracy[2])) << "nobody knows, which is not zero";
  EXPECT_DOUBLE_EQ(mean_of(accuracy), 0.75);
  EXPECT_DOUBLE_EQ(mean_of(task_accuracy(e, "greedy")), 1.0);
  const auto pass = task_pass_at_k(e, 8);
  EXPECT_DOUBLE_EQ(pass[0], 1.0);
  EXPECT_TRUE(std::isnan(pass[2]));
  EXPECT_DOUBLE_EQ(task_pass_at_k(e, 1)[0], 0.5);
}

TEST(Evaluation, GainIsPairedOverTasksThatHaveBoth) {
  const double none = std::nan("");
  const auto g = gain({0.5, 0.5, none, 0.0}, {0.75, 0.75, 1.0, none});
  EXPECT_DOUBLE_EQ(g.mean, 0.25);
  EXPECT_DOUBLE_EQ(g.low, 0.25) << "equal differences leave no spread";
  EXPECT_DOUBLE_EQ(g.high, 0.25);
  const auto mixed = gain({0, 0, 0, 0, 0, 0, 0, 0}, {1, -1, 1, -1, 1, -1, 1, -1});
  EXPECT_LT(mixed.low, 0);
  EXPECT_GT(mixed.high, 0);
}

TEST(Evaluation, TasksAreHeldOutAndFixedBySeed) {
  EvaluationOptions options;
  options.count = 30;
  const std::vector<std::string> families = {"sigmoid", "gelu",   "softplus", "clamp",
                                             "softmax", "cumsum", "mean",     "add"};
  const auto a = evaluation_tasks(options, families), b = evaluation_tasks(options, families);
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_EQ(a->size(), 30u);
  for (size_t i = 0; i < a->size(); ++i) {
    EXPECT_TRUE(corpus::is_held_out((*a)[i].sequence)) << (*a)[i].sequence;
    EXPECT_EQ((*a)[i].source, (*b)[i].source);
  }
  options.tasks = "no such folder";
  EXPECT_FALSE(evaluation_tasks(options, families));
}

TEST(Evaluation, FactsOfAVerdict) {
  keck::Verdict v;
  v.outcome = keck::Outcome::kPass;
  v.accepted = true;
  EXPECT_TRUE(facts_of(v).right);
  EXPECT_TRUE(std::isnan(facts_of(v).speedup));
  v.timing.emplace();
  v.timing->speedup = 1.5;
  v.timing->ci95[0] = 1.4;
  v.timing->ci95[1] = 1.6;
  EXPECT_DOUBLE_EQ(facts_of(v).speedup, 1.5);
  EXPECT_DOUBLE_EQ(facts_of(v).low, 1.4);
  v.accepted = false;
  EXPECT_FALSE(facts_of(v).right) << "right means passed and accepted by policy";
  EXPECT_TRUE(facts_of(v).scored);
  EXPECT_TRUE(std::isnan(facts_of(v).speedup));
  v.outcome = keck::Outcome::kUnscored;
  EXPECT_FALSE(facts_of(v).scored);
}

}  // namespace
}  // namespace kz::evolve
