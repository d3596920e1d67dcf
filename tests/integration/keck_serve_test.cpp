// The daemon as a process: real verdicts over HTTP, kills, drains, a full disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <set>
#include <stdexcept>
#include <thread>

#include "base/clock.h"
#include "integration/run_keck.h"
#include "integration/sources.h"
#include "keck/client/evaluations.h"
#include "keck/client/local_server.h"

namespace kz::keck {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

EvaluationRequest request(const std::string& positive) {
  EvaluationRequest r;
  r.module = kReluModule;
  r.candidate = relu_kernel(positive);
  r.backend = "cpp";
  r.timing = false;
  return r;
}

class KeckServe : public testing::Test {
 protected:
  KeckServe() : folder_(*TempDir::make(fs::temp_directory_path(), "kdaemon_serve")) {
    options_.layout = test_layout();
    options_.state = folder_.path() / "state";
    options_.log = folder_.path() / "serve.log";
    options_.resume_jobs = true;
  }
  LocalServer start() {
    auto server = LocalServer::start(options_);
    if (!server) throw std::runtime_error(server.error().message);
    options_.port = static_cast<uint16_t>(std::stoi(server->url().substr(server->url().rfind(':') + 1)));
    return std::move(*server);
  }
  static Client client(const LocalServer& server) { return *Client::make({.url = server.url()}); }

  TempDir folder_;
  LocalServerOptions options_;
};

TEST_F(KeckServe, JudgesOverHttpAndItsMetricsSaySo) {
  const LocalServer server = start();
  Evaluations evaluations(client(server), 16);
  const std::vector<std::string> kernels = {"2 * v", "v + v", "v", "3 * v"};
  for (size_t i = 0; i < kernels.size(); ++i) evaluations.submit(i, request(kernels[i]));
  evaluations.submit(9, request(kernels[0]));  // equal to the first: shared or cached
  std::map<size_t, Verdict> verdicts;
  while (auto result = evaluations.next(120s)) verdicts.insert(*result);
  ASSERT_EQ(verdicts.size(), 5u);
  for (const auto& [key, verdict] : verdicts) {
    const bool right = key != 2 && key != 3;
    EXPECT_EQ(verdict.outcome, right ? Outcome::kPass : Outcome::kFail) << key << ": " << verdict.message;
    EXPECT_EQ(verdict.right(), right);
    EXPECT_TRUE(verdict.stages_ms.contains("queue"));
  }
  EXPECT_TRUE(verdicts[0].from_cache || verdicts[9].from_cache);

  ModuleRequest module;
  module.module = kReluModule;
  const auto report = client(server).check_module(module);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->operators, testing::Contains("torch.relu"));

  const auto ready = client(server).get("/readyz");
  ASSERT_TRUE(ready);
  const auto capabilities = client(server).get("/v1/capabilities");
  ASSERT_TRUE(capabilities);
  EXPECT_THAT((*capabilities)["backends"], testing::Contains("cpp"));
}

TEST_F(KeckServe, KilledInTheMiddleOfABatchItLosesNothingAndScoresNothingTwice) {
  LocalServer server = start();
  Evaluations evaluations(client(server), 16);
  constexpr size_t kJobs = 8;
  for (size_t i = 0; i < kJobs; ++i) evaluations.submit(i, request(i % 2 ? "2 * v" : "v") /* cached ones among them */);
  for (size_t i = 0; i < kJobs; ++i) evaluations.submit(kJobs + i, request(std::to_string(i) + " * v"));
  auto first = evaluations.next(120s);
  ASSERT_TRUE(first);
  std::set<size_t> seen = {first->first};

  const auto family = family_of(server.pid());
  EXPECT_GT(family.size(), 1u);
  ::kill(server.pid(), SIGKILL);
  for (const Stopwatch watch; watch.seconds() < 10;) {
    if (std::none_of(family.begin(), family.end(), alive)) break;
    std::this_thread::sleep_for(20ms);
  }
  for (const int pid : family) EXPECT_FALSE(alive(pid)) << "process " << pid << " outlived its daemon";

  server = start();
  while (auto result = evaluations.next(120s)) {
    EXPECT_TRUE(seen.insert(result->first).second) << "a second verdict for " << result->first;
    const bool right = result->first < kJobs ? result->first % 2 == 1 : result->first == kJobs + 2;
    EXPECT_EQ(result->second.outcome, right ? Outcome::kPass : Outcome::kFail) << result->second.message;
  }
  EXPECT_EQ(seen.size(), 2 * kJobs);
}

TEST_F(KeckServe, SigtermDrainsAndTheNextDaemonGoesOn) {
  LocalServer server = start();
  const Client c = client(server);
  std::vector<BatchRow> rows;
  for (int i = 0; i < 6; ++i) rows.push_back({std::to_string(i), to_json(request(std::to_string(i + 2) + " * v"))});
  ASSERT_TRUE(c.submit_batch("drained-batch", rows));
  const Stopwatch watch;
  server.stop();
  EXPECT_LT(watch.seconds(), 9.5) << "it had to be killed";
  server = start();
  size_t finished = 0;
  for (uint64_t cursor = 0; finished < rows.size();) {
    const auto items = client(server).poll_batch("drained-batch", cursor, 60);
    ASSERT_TRUE(items) << items.error().message;
    for (const auto& item : *items) {
      cursor = item.sequence;
      EXPECT_EQ(item.verdict->outcome, item.key == "0" ? Outcome::kPass : Outcome::kFail);
      ++finished;
    }
  }
}

// A command that starts a server of its own does not first do what a killed one had asked for.
TEST_F(KeckServe, AnOwnServerForgetsWhatAnEarlierOwnerLeft) {
  LocalServer server = start();
  std::vector<BatchRow> rows;
  for (int i = 0; i < 12; ++i) rows.push_back({std::to_string(i), to_json(request(std::to_string(i + 2) + " * v"))});
  ASSERT_TRUE(client(server).submit_batch("abandoned-batch", rows));
  ::kill(server.pid(), SIGKILL);
  options_.resume_jobs = false;
  server = start();
  std::map<std::string, int> states;
  for (uint64_t cursor = 0, seen = 0; seen < rows.size();) {
    const auto items = client(server).poll_batch("abandoned-batch", cursor, 60);
    ASSERT_TRUE(items) << items.error().message;
    ASSERT_FALSE(items->empty()) << "it runs them";
    for (const auto& item : *items) cursor = item.sequence, ++seen, ++states[item.state];
  }
  EXPECT_GE(states["cancelled"], 6);
}

TEST_F(KeckServe, ItsOwnerTakesItAlong) {
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    auto server = LocalServer::start(options_);
    const int pid = server ? server->pid() : -1;
    (void)!::write(pipes[1], &pid, sizeof pid);
    ::pause();
    ::_exit(0);
  }
  int daemon = -1;
  ASSERT_EQ(::read(pipes[0], &daemon, sizeof daemon), static_cast<ssize_t>(sizeof daemon));
  ASSERT_GT(daemon, 0);
  EXPECT_TRUE(alive(daemon));
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  for (const Stopwatch watch; alive(daemon) && watch.seconds() < 15;) std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(alive(daemon));
}

}  // namespace
}  // namespace kz::keck
