#include "keck/job/jobs.h"

#include <gtest/gtest.h>

#include <thread>

namespace kz::keck {
namespace {

class JobsTest : public testing::Test {
 protected:
  JobsTest() : folder_(*TempDir::make(fs::temp_directory_path(), "kdaemon_jobs")) {
    options_.journal.file = folder_.path() / "journal.db";
    open();
  }

  void open(const std::string& environment = "env") {
    jobs_.reset();
    auto jobs = Jobs::open(options_);
    ASSERT_TRUE(jobs) << jobs.error().message;
    jobs_ = std::move(*jobs);
    jobs_->on_finish([this](const std::string& id, const std::string&) { told_.push_back(id); });
    ASSERT_TRUE(jobs_->begin(environment));
  }

  static Submission submission(const std::string& candidate, const std::string& client = "a") {
    EvaluationRequest request;
    request.module = "module";
    request.candidate = candidate;
    return {request, client, 0, "", ""};
  }
  static Submission row(const std::string& candidate, const std::string& batch, const std::string& key) {
    Submission s = submission(candidate);
    s.batch = batch;
    s.key = key;
    return s;
  }
  std::string accept(Submission s) { return jobs_->accept({std::move(s)}).value().front(); }
  JobView view(const std::string& id) { return jobs_->find(id).value().value(); }

  static Verdict verdict(Outcome outcome, const std::string& reason = "") {
    Verdict v;
    v.outcome = outcome;
    v.reason = reason;
    v.cpu_seconds = 2;
    return v;
  }
  // Runs the next work; the candidate of it.
  std::string run_one(Outcome outcome = Outcome::kPass, const std::string& reason = "") {
    auto work = jobs_->take();
    jobs_->finish(work->id, verdict(outcome, reason));
    return std::get<EvaluationRequest>(work->request).candidate;
  }

  TempDir folder_;
  JobsOptions options_;
  std::unique_ptr<Jobs> jobs_;
  std::vector<std::string> told_;
};

TEST_F(JobsTest, RunsAJobAndRemembersItsAnswer) {
  const std::string id = accept(submission("x"));
  EXPECT_EQ(view(id).state, JobState::kQueued);
  auto work = jobs_->take();
  EXPECT_EQ(view(id).state, JobState::kRunning);
  jobs_->finish(work->id, verdict(Outcome::kFail, "wrong_values"));
  EXPECT_EQ(view(id).state, JobState::kDone);
  EXPECT_EQ(view(id).answer["id"], id);
  EXPECT_EQ(view(id).answer["reason"], "wrong_values");
  EXPECT_TRUE(view(id).answer["stages_ms"].contains("queue"));
  EXPECT_EQ(told_, std::vector<std::string>{id});
  open();
  EXPECT_EQ(view(id).answer["reason"], "wrong_values");
}

TEST_F(JobsTest, WhatWasAcceptedSurvivesARestartAndIsScoredOnce) {
  const std::string done = accept(submission("done"));
  run_one();
  const std::string running = accept(submission("running"));
  (void)jobs_->take();  // and the daemon dies here
  const std::string queued = accept(submission("queued"));
  open();
  EXPECT_EQ(run_one(), "running");
  EXPECT_EQ(run_one(), "queued");
  EXPECT_EQ(jobs_->statistics().queued, 0u);
  for (const auto& id : {done, running, queued}) EXPECT_EQ(view(id).state, JobState::kDone);
}

TEST_F(JobsTest, ADaemonThatServesOneOwnerCancelsWhatAnEarlierOneLeft) {
  const std::string id = accept(submission("x"));
  options_.resume = false;
  open();
  EXPECT_EQ(view(id).state, JobState::kCancelled);
  EXPECT_EQ(jobs_->statistics().queued, 0u);
}

TEST_F(JobsTest, GivesUpAJobThatKeepsKillingDaemons) {
  const std::string id = accept(submission("poison"));
  for (int i = 0; i < options_.max_attempts; ++i) {
    (void)jobs_->take();
    open();
  }
  EXPECT_EQ(view(id).state, JobState::kDone);
  EXPECT_EQ(view(id).answer["outcome"], "unscored");
  EXPECT_EQ(view(id).answer["reason"], "gave_up");
}

TEST_F(JobsTest, ADrainingDaemonsAttemptDoesNotCount) {
  const std::string id = accept(submission("x"));
  for (int i = 0; i < 2 * options_.max_attempts; ++i) {
    auto work = jobs_->take();
    jobs_->drain();
    jobs_->cancel_running();
    EXPECT_TRUE(*work->cancelled);
    jobs_->give_back(work->id);
    EXPECT_FALSE(jobs_->accept({submission("y")}));
    EXPECT_FALSE(jobs_->take());
    open();
  }
  run_one();
  EXPECT_EQ(view(id).answer["outcome"], "pass");
}

TEST_F(JobsTest, EqualJobsInFlightShareOneRun) {
  const std::string first = accept(submission("x", "a")), second = accept(submission("x", "b"));
  auto work = jobs_->take();
  const std::string third = accept(submission("x", "c"));  // joins the running one
  EXPECT_EQ(jobs_->statistics().queued, 0u);
  jobs_->finish(work->id, verdict(Outcome::kPass));
  for (const auto& id : {first, second, third}) {
    EXPECT_EQ(view(id).state, JobState::kDone);
    EXPECT_EQ(view(id).answer["id"], id);
  }
  // The cost is counted once.
  EXPECT_EQ(view(first).answer["cpu_seconds"], 2);
  EXPECT_EQ(view(second).answer["cpu_seconds"], 0);
  EXPECT_EQ(jobs_->statistics().joined, 2u);
}

TEST_F(JobsTest, AnswersFromTheCacheAcrossRestartsButNotAcrossEnvironments) {
  accept(submission("x"));
  run_one();
  open();
  const std::string again = accept(submission("x"));
  EXPECT_EQ(view(again).state, JobState::kDone);
  EXPECT_EQ(view(again).answer["from_cache"], true);
  EXPECT_EQ(told_.back(), again);
  open("another torch");
  const std::string fresh = accept(submission("x"));
  EXPECT_EQ(view(fresh).state, JobState::kQueued);
}

TEST_F(JobsTest, WhatTheHostHadAPartInIsNeverCached) {
  const std::vector<std::pair<Outcome, std::string>> answers = {{Outcome::kUnscored, "freeze_timeout"},
                                                                {Outcome::kFail, "timeout"}};
  for (const auto& [outcome, reason] : answers) {
    accept(submission(reason));
    run_one(outcome, reason);
    EXPECT_EQ(view(accept(submission(reason))).state, JobState::kQueued);
    run_one();
  }
}

TEST_F(JobsTest, ASeedOrTheWishForAFreshVerdictBypassesTheCache) {
  accept(submission("x"));
  run_one();
  Submission seeded = submission("x");
  std::get<EvaluationRequest>(seeded.request).seed = 7;
  EXPECT_EQ(view(accept(seeded)).state, JobState::kQueued);
  EXPECT_EQ(view(accept(seeded)).state, JobState::kQueued);
  Submission fresh = submission("x");
  std::get<EvaluationRequest>(fresh.request).use_result_cache = false;
  EXPECT_EQ(view(accept(fresh)).state, JobState::kQueued);
  EXPECT_EQ(jobs_->statistics().queued, 3u);
}

TEST_F(JobsTest, AFullQueueRefusesAllOfABatchButKnownAnswersAlwaysFit) {
  options_.queue_limit = 2;
  open();
  accept(submission("cached"));
  run_one();
  accept(submission("1"));
  const auto refused = jobs_->accept({row("2", "batch-01", "2"), row("3", "batch-01", "3")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "full");
  EXPECT_FALSE(jobs_->journal().batch_counts("batch-01").value());
  EXPECT_TRUE(jobs_->accept({row("2", "batch-01", "2"), row("2", "batch-01", "same")}));
  EXPECT_FALSE(jobs_->accept({submission("4")}));
  EXPECT_TRUE(jobs_->accept({submission("cached"), submission("1")}));
  EXPECT_EQ(jobs_->statistics().refused_full, 2u);
}

TEST_F(JobsTest, TheQueueIsBoundedInBytesToo) {
  options_.queue_bytes = 250'000;
  open();
  const auto large = [](int i) { return submission(std::string(100'000, 'x') + std::to_string(i)); };
  accept(large(1));
  const std::string second = accept(large(2));
  const auto refused = jobs_->accept({large(3)});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("queue.memory_mb"), std::string::npos);
  EXPECT_TRUE(jobs_->cancel(second).value());
  accept(large(3));
  EXPECT_FALSE(jobs_->accept({large(4)}));
  (void)jobs_->take();
  accept(large(4));
}

TEST_F(JobsTest, ARowSentTwiceUnderItsKeyIsTakenOnce) {
  const auto first = jobs_->accept({row("1", "batch-01", "a"), row("2", "batch-01", "b")}).value();
  const auto second = jobs_->accept({row("2", "batch-01", "b"), row("3", "batch-01", "c")}).value();
  EXPECT_EQ(first[1], second[0]);
  EXPECT_EQ(jobs_->journal().batch_counts("batch-01").value()->total, 3u);
  open();
  EXPECT_EQ(jobs_->accept({row("3", "batch-01", "c")}).value()[0], second[1]);
}

TEST_F(JobsTest, ABatchIsReadInTheOrderOfFinishing) {
  const auto ids = jobs_->accept({row("1", "batch-01", "a"), row("2", "batch-01", "b")}).value();
  auto first = jobs_->take(), second = jobs_->take();
  jobs_->finish(second->id, verdict(Outcome::kPass));
  auto items = jobs_->journal().batch_finished("batch-01", 0, 10).value();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].key, "b");
  jobs_->finish(first->id, verdict(Outcome::kPass));
  items = jobs_->journal().batch_finished("batch-01", items[0].sequence, 10).value();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].id, ids[0]);
}

TEST_F(JobsTest, CancelsAQueuedJobAtOnceAndARunningOneThroughItsFlag) {
  const std::string running = accept(submission("running")), queued = accept(submission("queued"));
  auto work = jobs_->take();
  EXPECT_TRUE(jobs_->cancel(queued).value());
  EXPECT_EQ(jobs_->statistics().queued, 0u);
  EXPECT_FALSE(*work->cancelled);
  EXPECT_TRUE(jobs_->cancel(running).value());
  EXPECT_TRUE(*work->cancelled);
  EXPECT_EQ(view(running).state, JobState::kCancelled);
  EXPECT_FALSE(jobs_->cancel(running).value());
  // An equal job that comes now runs anew; what the cancelled run says is nobody's answer.
  const std::string again = accept(submission("running"));
  jobs_->finish(work->id, verdict(Outcome::kUnscored, "cancelled"));
  EXPECT_EQ(view(running).state, JobState::kCancelled);
  EXPECT_EQ(view(again).state, JobState::kQueued);
  run_one();
  EXPECT_EQ(view(again).state, JobState::kDone);
  EXPECT_EQ(told_, (std::vector<std::string>{queued, running, again}));
}

TEST_F(JobsTest, ASharedRunGoesOnUntilTheLastOfItsJobsIsCancelled) {
  const std::string first = accept(submission("x")), second = accept(submission("x"));
  auto work = jobs_->take();
  EXPECT_TRUE(jobs_->cancel(first).value());
  EXPECT_FALSE(*work->cancelled);
  jobs_->finish(work->id, verdict(Outcome::kPass));
  EXPECT_EQ(view(first).state, JobState::kCancelled);
  EXPECT_EQ(view(second).state, JobState::kDone);
}

TEST_F(JobsTest, CancelsWhatIsLeftOfABatch) {
  (void)jobs_->accept({row("1", "batch-01", "a"), row("2", "batch-01", "b"), row("3", "batch-01", "c")});
  run_one();
  EXPECT_EQ(jobs_->cancel_batch("batch-01").value(), 2u);
  const auto counts = jobs_->journal().batch_counts("batch-01").value();
  EXPECT_EQ(counts->finished, 3u);
  EXPECT_EQ(counts->cancelled, 2u);
}

TEST_F(JobsTest, TakeWaitsForWorkAndEndsWithTheDrain) {
  std::thread worker([&] {
    EXPECT_TRUE(jobs_->take());
    EXPECT_FALSE(jobs_->take());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  accept(submission("x"));
  while (jobs_->statistics().running == 0) std::this_thread::yield();
  jobs_->drain();
  worker.join();
}

}  // namespace
}  // namespace kz::keck
