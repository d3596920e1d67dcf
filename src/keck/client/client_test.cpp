#include "keck/client/client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <set>

#include "base/clock.h"
#include "keck/client/evaluations.h"
#include "keck/client/test_server.h"

namespace kz::keck {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

EvaluationRequest request(const std::string& candidate) {
  EvaluationRequest r;
  r.module = "m";
  r.candidate = candidate;
  return r;
}

template <typename T>
std::string code_of(const Result<T>& result) {
  return result ? "no error" : result.error().code;
}

class ClientTest : public testing::Test {
 protected:
  ClientTest() : folder_(*TempDir::make(fs::temp_directory_path(), "kdaemon_client")) {
    options_.state = folder_.path();
  }

  void start() { server_ = std::make_unique<TestServer>(options_); }
  Client client(double retry_s = 10) {
    ClientOptions options;
    options.url = server_->url();
    options.token = options_.token;
    options.retry_s = retry_s;
    return *Client::make(options);
  }

  TempDir folder_;
  TestServer::Options options_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(ClientTest, Evaluates) {
  start();
  const auto verdict = client().evaluate(request("fail"));
  ASSERT_TRUE(verdict) << verdict.error().message;
  EXPECT_EQ(verdict->outcome, Outcome::kFail);
  EXPECT_FALSE(verdict->id.empty());
  ModuleRequest module;
  module.module = "pass";
  EXPECT_EQ(client().check_module(module)->outcome, Outcome::kPass);
}

TEST_F(ClientTest, SubmitsPollsWaitsAndCancels) {
  start();
  const Client c = client();
  const std::string id = *c.submit(request("sleep 0.2 pass"));
  EXPECT_EQ(*c.poll(id, 0), std::nullopt);
  EXPECT_EQ(code_of(c.wait(id, 0.01)), "timeout");
  EXPECT_EQ(c.wait(id, 10)->outcome, Outcome::kPass);
  const std::string other = *c.submit(request("sleep 30 pass"));
  EXPECT_TRUE(c.cancel(other));
  EXPECT_EQ(code_of(c.wait(other, 10)), "request");
  EXPECT_EQ(code_of(c.wait("none", 1)), "not_found");
  EXPECT_EQ(code_of(c.wait("a/../b", 1)), "request");
}

TEST_F(ClientTest, ErrorsSayUrlAndRemedy) {
  EXPECT_EQ(code_of(Client::make({.url = "ftp://x"})), "url");
  EXPECT_EQ(code_of(Client::make({.url = "http://"})), "url");
  const auto unreachable = Client::make({.url = "127.0.0.1:1", .retry_s = 0})->evaluate(request("pass"));
  ASSERT_FALSE(unreachable);
  EXPECT_EQ(code_of(unreachable), "connect");
  EXPECT_THAT(unreachable.error().message, HasSubstr("http://127.0.0.1:1"));
  EXPECT_THAT(unreachable.error().message, HasSubstr("keck serve"));

  options_.token = "secret";
  start();
  const auto no_token = Client::make({.url = server_->url()})->evaluate(request("pass"));
  EXPECT_EQ(code_of(no_token), "auth");
  EXPECT_TRUE(client().evaluate(request("pass")));

  const auto refused = client().evaluate(request(std::string((1 << 20) + 1, 'x')));
  ASSERT_EQ(code_of(refused), "request");
  EXPECT_THAT(refused.error().message, HasSubstr("\"candidate\""));
}

TEST_F(ClientTest, ABodyOverTheLimitIs413NotAHang) {
  options_.body_limit = 1 << 20;
  start();
  const auto refused = client(0).evaluate(request(std::string(3 << 20, 'x')));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "request") << refused.error().message;
  EXPECT_THAT(refused.error().message, HasSubstr("limit of 1048576 bytes"));
  EXPECT_TRUE(client(0).evaluate(request("pass")));
}

// A server that takes the connection and drops it in the middle of the request.
TEST_F(ClientTest, AServerThatDropsTheConnectionIsAnErrorNotASignal) {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::thread server([&] {
    const Fd connection(::accept(listener.get(), nullptr, nullptr));
    const linger reset = {1, 0};
    ::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    char bytes[64];
    (void)!::read(connection.get(), bytes, sizeof bytes);
  });
  const auto c = Client::make({.url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)), .retry_s = 0});
  EXPECT_EQ(code_of(c->evaluate(request(std::string(1 << 20, 'x')))), "connect");
  server.join();
}

TEST_F(ClientTest, TriesAgainWhileTheQueueIsFullOrTheServerIsAway) {
  options_.queue_limit = 1;
  options_.workers = 1;
  start();
  const Client c = client();
  (void)c.submit(request("sleep 0.2 pass"));
  (void)c.submit(request("2"));
  EXPECT_EQ(code_of(client(0).submit(request("3"))), "busy");
  EXPECT_TRUE(c.submit(request("3")));

  options_.port = server_->port();
  server_.reset();
  std::thread later([&] {
    std::this_thread::sleep_for(200ms);
    start();
  });
  EXPECT_TRUE(c.evaluate(request("4")));
  later.join();
}

TEST_F(ClientTest, ManyVerdictsCostFewConnectionsAndLittleTime) {
  start();
  constexpr size_t kJobs = 2000;
  Evaluations evaluations(client(), 500);
  const std::clock_t cpu_before = std::clock();
  const Stopwatch watch;
  for (size_t i = 0; i < kJobs; ++i) evaluations.submit(i, request((i % 3 ? "pass " : "fail ") + std::to_string(i)));
  EXPECT_EQ(evaluations.outstanding(), kJobs);
  std::set<size_t> seen;
  while (auto result = evaluations.next(20s)) {
    EXPECT_TRUE(seen.insert(result->first).second);
    EXPECT_EQ(result->second.outcome, result->first % 3 ? Outcome::kPass : Outcome::kFail);
  }
  EXPECT_EQ(seen.size(), kJobs);
  EXPECT_EQ(server_->evaluator->evaluations, static_cast<int>(kJobs));
  const double cpu_ms = 1e3 * static_cast<double>(std::clock() - cpu_before) / CLOCKS_PER_SEC;
  std::printf("client, HTTP, journal and queue: %.2f CPU-ms and %.2f ms a verdict\n", cpu_ms / kJobs,
              1e3 * watch.seconds() / kJobs);
  EXPECT_LT(cpu_ms / kJobs, 25);  // a verdict itself costs hundreds
}

TEST_F(ClientTest, NextReturnsAtOnceWhenNothingIsOutstandingAndInTimeWhenSomethingIs) {
  start();
  Evaluations evaluations(client(), 4);
  EXPECT_EQ(evaluations.next(10s), std::nullopt);
  evaluations.submit(1, request("sleep 0.5 pass"));
  const Stopwatch watch;
  EXPECT_EQ(evaluations.next(20ms), std::nullopt);
  EXPECT_LT(watch.seconds(), 0.4);
  EXPECT_TRUE(evaluations.next(10s));
}

TEST_F(ClientTest, VerdictsComeInTheOrderOfFinishing) {
  start();
  Evaluations evaluations(client(), 4);
  evaluations.submit(1, request("sleep 0.4 pass"));
  evaluations.submit(2, request("pass"));
  EXPECT_EQ(evaluations.next(10s)->first, 2u);
  EXPECT_EQ(evaluations.next(10s)->first, 1u);
}

TEST_F(ClientTest, AJobThatIsRefusedHarmsNoOther) {
  start();
  Evaluations evaluations(client(), 8);
  evaluations.submit(0, request("pass"));
  evaluations.submit(1, request(std::string((1 << 20) + 1, 'x')));
  evaluations.submit(2, request("fail"));
  std::map<size_t, Verdict> verdicts;
  while (auto result = evaluations.next(20s)) verdicts.insert(*result);
  ASSERT_EQ(verdicts.size(), 3u);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kPass);
  EXPECT_EQ(verdicts[1].outcome, Outcome::kUnscored);
  EXPECT_EQ(verdicts[1].reason, "refused");
  EXPECT_THAT(verdicts[1].message, HasSubstr("\"candidate\""));
  EXPECT_EQ(verdicts[2].outcome, Outcome::kFail);
}

TEST_F(ClientTest, ARestartOfTheDaemonLosesNothing) {
  start();
  options_.port = server_->port();
  Evaluations evaluations(client(), 100);
  for (size_t i = 0; i < 60; ++i) evaluations.submit(i, request("sleep 0.01 pass " + std::to_string(i)));
  ASSERT_TRUE(evaluations.next(10s));
  server_.reset();
  start();
  size_t got = 1;
  while (auto result = evaluations.next(20s)) {
    EXPECT_EQ(result->second.outcome, Outcome::kPass) << result->second.message;
    ++got;
  }
  EXPECT_EQ(got, 60u);
}

TEST_F(ClientTest, ADaemonThatForgotTheBatchGetsItAgain) {
  start();
  options_.port = server_->port();
  Evaluations evaluations(client(), 100);
  for (size_t i = 0; i < 20; ++i) evaluations.submit(i, request("sleep 0.05 pass " + std::to_string(i)));
  ASSERT_TRUE(evaluations.next(10s));
  server_.reset();
  fs::remove_all(folder_.path());
  start();
  size_t got = 1;
  while (auto result = evaluations.next(20s)) {
    EXPECT_EQ(result->second.outcome, Outcome::kPass) << result->second.message;
    ++got;
  }
  EXPECT_EQ(got, 20u);
}

TEST_F(ClientTest, AServerThatStaysAwayEndsInUnscoredResultsThatSayWhy) {
  start();
  Evaluations evaluations(client(/*retry_s=*/0.2), 4);
  evaluations.submit(1, request("sleep 30 pass"));
  while (server_->evaluator->running == 0) std::this_thread::yield();
  server_.reset();
  const auto result = evaluations.next(20s);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->second.outcome, Outcome::kUnscored);
  EXPECT_EQ(result->second.reason, "server_unreachable");
  EXPECT_THAT(result->second.message, HasSubstr("http://127.0.0.1"));
}

// The first row runs before the reply to its post is back: going away in that moment must cancel too.
TEST_F(ClientTest, GoingAwayDuringAPostCancelsWhatWasPosted) {
  start();
  const Stopwatch watch;
  for (size_t round = 0; round < 30; ++round) {
    const int before = server_->evaluator->evaluations;
    Evaluations evaluations(client(), 4);
    for (size_t i = 0; i < 6; ++i) evaluations.submit(i, request("sleep 60 pass " + std::to_string(6 * round + i)));
    while (server_->evaluator->evaluations == before && watch.seconds() < 30) {
    }
  }
  while (server_->evaluator->running > 0 && watch.seconds() < 30) std::this_thread::yield();
  EXPECT_EQ(server_->evaluator->running, 0);
  EXPECT_EQ(server_->service().jobs().statistics().queued, 0u);
}

TEST_F(ClientTest, GoingAwayCancelsWhatIsLeft) {
  start();
  const Stopwatch watch;
  {
    Evaluations evaluations(client(), 4);
    for (size_t i = 0; i < 6; ++i) evaluations.submit(i, request("sleep 30 pass " + std::to_string(i)));
    while (server_->evaluator->running < 2) std::this_thread::yield();
  }
  EXPECT_LT(watch.seconds(), 10);
  for (; server_->evaluator->running > 0 && watch.seconds() < 10;) std::this_thread::yield();
  EXPECT_EQ(server_->evaluator->running, 0);
  EXPECT_EQ(server_->service().jobs().statistics().queued, 0u);
}

TEST_F(ClientTest, ModuleChecksWorkTheSameWay) {
  start();
  ModuleChecks checks(client(), 4);
  for (size_t i = 0; i < 10; ++i) {
    ModuleRequest module;
    module.module = (i % 2 ? "pass " : "fail ") + std::to_string(i);
    checks.submit(i, module);
  }
  size_t got = 0;
  while (auto result = checks.next(20s)) {
    EXPECT_EQ(result->second.outcome, result->first % 2 ? Outcome::kPass : Outcome::kFail);
    ++got;
  }
  EXPECT_EQ(got, 10u);
}

TEST(HttpServer, ATakenPortIsAnErrorThatNamesItAndTheRemedy) {
  const Handler none = [](HttpRequest) -> Task<HttpResponse> { co_return HttpResponse{}; };
  HttpServerOptions options;
  options.port = 0;
  const auto first = HttpServer::listen(options, none);
  ASSERT_TRUE(first);
  const std::string address = (*first)->address();
  options.port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const auto second = HttpServer::listen(options, none);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, "port");
  EXPECT_THAT(second.error().message, HasSubstr(address));
  EXPECT_THAT(second.error().message, HasSubstr("--listen"));
}

}  // namespace
}  // namespace kz::keck
