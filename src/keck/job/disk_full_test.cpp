// A disk that is really full: a tmpfs of one megabyte in a mount namespace of this test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "keck/job/jobs.h"

namespace kz::keck {
namespace {

class DiskFull : public testing::Test {
 protected:
  DiskFull() : folder_(*TempDir::make(fs::temp_directory_path(), "kdaemon_disk")) {}

  void SetUp() override {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      GTEST_SKIP() << "this host permits no mount namespace";
    const char* disk = folder_.path().c_str();
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", disk, "tmpfs", 0, "size=1m") != 0)
      GTEST_SKIP() << "this host permits no mount";
    options_.journal.file = folder_.path() / "journal.db";
    jobs_ = *Jobs::open(options_);
    ASSERT_TRUE(jobs_->begin("env"));
  }
  void TearDown() override {
    jobs_.reset();
    ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  void grow() { ASSERT_EQ(::mount("none", folder_.path().c_str(), nullptr, MS_REMOUNT, "size=32m"), 0); }

  Result<std::string> accept(int i) {
    EvaluationRequest request;
    request.module = "module";
    request.candidate = std::string(20'000, 'x') + std::to_string(i);
    return jobs_->accept({{request, "client", 0, "", ""}}).map([](const auto& ids) { return ids.front(); });
  }

  TempDir folder_;
  JobsOptions options_;
  std::unique_ptr<Jobs> jobs_;
};

TEST_F(DiskFull, RefusesNewJobsByNameKeepsTheAcceptedOnesAndRecovers) {
  std::vector<std::string> accepted;
  std::string why;
  while (why.empty() && accepted.size() < 1000) {
    if (const auto id = accept(static_cast<int>(accepted.size())))
      accepted.push_back(*id);
    else
      why = id.error().code + ": " + id.error().message;
  }
  EXPECT_THAT(why, testing::StartsWith("io: journal " + options_.journal.file.string()));
  EXPECT_THAT(why, testing::HasSubstr("free some space"));
  ASSERT_GT(accepted.size(), 3u);
  for (const auto& id : accepted) EXPECT_EQ(jobs_->find(id).value()->state, JobState::kQueued);

  // A verdict that cannot be written now is not lost: it is written as soon as there is room.
  const auto work = jobs_->take();
  Verdict verdict;
  verdict.outcome = Outcome::kPass;
  verdict.log_tail = std::string(200'000, 'x');
  jobs_->finish(work->id, verdict);
  EXPECT_NE(jobs_->find(accepted[0]).value()->state, JobState::kDone);
  grow();
  jobs_->maintain();
  EXPECT_EQ(jobs_->find(accepted[0]).value()->answer["outcome"], "pass");
  EXPECT_TRUE(accept(-1));
}

}  // namespace
}  // namespace kz::keck
