#include "evolve/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

namespace kz::evolve {
namespace {

using testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  TempDir dir_ = *TempDir::make(fs::temp_directory_path(), "kevolve-store-");
  fs::path file_ = dir_.path() / "run.db";
};

StepRecord step(int64_t n) {
  StepRecord s;
  s.step = n;
  s.role = Role::kCoder;
  s.seconds = 1.5;
  s.coder_checkpoint = "coder-" + std::to_string(n);
  s.metrics = {{"coder/accuracy", 0.25}, {"coder/loss", std::nan("")}};
  Rollout r;
  r.text = "class ModelNew";
  r.prompt = "p";
  r.outcome = "pass";
  r.right = true;
  r.reward = 1.05;
  s.rollouts = {r, r};
  ModuleRecord m;
  m.id = n + 1;
  m.hash = "h" + std::to_string(n);
  m.sequence = "a>b";
  m.apis = {"a", "b"};
  m.status = ModuleStatus::kFrontier;
  m.mean = 0.5;
  s.modules = {m};
  s.module_rounds = {{m.id, 8, 8, 4}};
  return s;
}

TEST_F(StoreTest, KeepsStepsModulesAndMetrics) {
  {
    auto store = Store::create(file_, {{"seed", "7"}});
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE(store->commit_step(step(0)));
    ASSERT_TRUE(store->commit_step(step(1)));
  }
  auto store = Store::open(file_);
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(store->meta()->at("seed"), "7");
  const auto last = *store->last_step();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->step, 1);
  EXPECT_EQ(last->coder_checkpoint, "coder-1");
  EXPECT_DOUBLE_EQ(*store->seconds(), 3.0);
  const auto modules = *store->modules();
  ASSERT_EQ(modules.size(), 2u);
  EXPECT_EQ(modules[1].apis, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(modules[1].status, ModuleStatus::kFrontier);
  EXPECT_DOUBLE_EQ(*modules[1].mean, 0.5);
  EXPECT_EQ(*store->count("rollouts"), 4);
  const auto metrics = *store->metrics();
  ASSERT_EQ(metrics.size(), 4u);
  EXPECT_EQ(metrics[1].name, "coder/loss");
  EXPECT_TRUE(std::isnan(metrics[1].value));
}

TEST_F(StoreTest, AStepIsWholeOrNotThere) {
  auto store = Store::create(file_, {});
  ASSERT_TRUE(store);
  StepRecord bad = step(0);
  bad.modules.push_back(bad.modules[0]);
  bad.modules[1].id = 9;  // the same hash under another id: replaced, then the step number repeats below
  ASSERT_TRUE(store->commit_step(bad));
  const auto again = store->commit_step(step(0));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, "io");
  EXPECT_EQ(*store->count("rollouts"), 2) << "the refused transaction left rows behind";
}

TEST_F(StoreTest, NthVerdictInOrderOfRecording) {
  auto store = Store::create(file_, {});
  const VerdictKey key{"m", "c", "cpp"};
  keck::Verdict v;
  v.outcome = keck::Outcome::kUnscored;
  ASSERT_TRUE(store->add_verdict(key, v, 3));
  v.outcome = keck::Outcome::kPass;
  v.accepted = true;
  v.timing.emplace().speedup = 1.25;
  ASSERT_TRUE(store->add_verdict(key, v, 4));
  EXPECT_EQ(*store->count_verdicts(key), 2);
  EXPECT_EQ((*store->nth_verdict(key, 0))->verdict.outcome, keck::Outcome::kUnscored);
  const auto second = *store->nth_verdict(key, 1);
  EXPECT_EQ(second->unit, 4);
  EXPECT_TRUE(second->verdict.right());
  EXPECT_EQ(second->verdict.timing->speedup, 1.25);
  EXPECT_FALSE(*store->nth_verdict(key, 2));
  EXPECT_FALSE(*store->nth_verdict({"m", "other", "cpp"}, 0));
}

TEST_F(StoreTest, RefusesWhatItCannotRead) {
  ASSERT_TRUE(Store::create(file_, {}));
  const auto twice = Store::create(file_, {});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, "exists");
  EXPECT_THAT(twice.error().message, HasSubstr("--resume"));
  {
    auto store = Store::open(file_);
    ASSERT_TRUE(store->set_meta("schema_version", "999"));
  }
  const auto newer = Store::open(file_);
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, "version");
  EXPECT_THAT(newer.error().message, HasSubstr("999"));
  EXPECT_THAT(newer.error().message, testing::Not(HasSubstr("\n")));

  const fs::path text = dir_.path() / "text.db";
  ASSERT_TRUE(write_file_atomic(text, std::string(5000, 'x')));
  const auto damaged = Store::open(text);
  ASSERT_FALSE(damaged);
  EXPECT_THAT(damaged.error().message, HasSubstr("text.db"));
  const auto none = Store::open(dir_.path() / "none.db");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("does not exist"));
}

TEST_F(StoreTest, EvaluationRoundTrips) {
  auto store = Store::create(file_, {});
  EvaluationRecord e;
  e.name = "before";
  e.tasks = {{"t0", "a>b", "class Model"}};
  e.samples.push_back({0, "sample", 0, "class ModelNew", "pass", "", true, true, 2.0, 0});
  e.samples.push_back({0, "greedy", 0, "class ModelNew", "unscored", "x", false, false, std::nan(""), 0});
  e.numbers = {{"accuracy", 1.0}, {"greedy", std::nan("")}};
  ASSERT_TRUE(store->commit_evaluation(e));
  const auto got = *store->evaluation("before");
  ASSERT_TRUE(got);
  ASSERT_EQ(got->samples.size(), 2u);
  EXPECT_EQ(got->samples[0].kind, "greedy");
  EXPECT_FALSE(got->samples[0].scored);
  EXPECT_TRUE(std::isnan(got->numbers.at("greedy")));
  EXPECT_EQ(got->tasks[0].sequence, "a>b");
  EXPECT_FALSE(*store->evaluation("after"));
}

// A child commits steps until it is killed at some instant: what is there afterwards are whole steps.
TEST_F(StoreTest, KillInTheMiddleOfTransactions) {
  for (int round = 0; round < 8; ++round) {
    const fs::path file = dir_.path() / ("kill" + std::to_string(round) + ".db");
    ASSERT_TRUE(Store::create(file, {}));
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = Store::open(file);
      for (int64_t n = 0;; ++n) {
        if (!store->commit_step(step(n))) ::_exit(1);
      }
    }
    ::usleep(15000 + 4321 * round);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    auto store = Store::open(file);
    ASSERT_TRUE(store) << store.error().message;
    const auto last = *store->last_step();
    const int64_t steps = last ? last->step + 1 : 0;
    EXPECT_EQ(*store->count("rollouts"), 2 * steps);
    EXPECT_EQ(*store->count("modules"), steps);
    EXPECT_EQ(*store->count("metrics"), 2 * steps);
  }
}

}  // namespace
}  // namespace kz::evolve
