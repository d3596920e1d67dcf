// The API without a port: handlers on a reactor that the test turns by hand.
#include "keck/api/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <mutex>

#include "base/clock.h"
#include "base/text.h"
#include "keck/api/scripted_evaluator.h"

namespace kz::keck {
namespace {

using testing::HasSubstr;

class HandReactor : public Reactor {
 public:
  void post(std::function<void()> work) override {
    const std::lock_guard guard(mutex_);
    posted_.push_back(std::move(work));
  }
  uint64_t after(double seconds, std::function<void()> work) override {
    timers_[++last_] = {steady_seconds() + seconds, std::move(work)};
    return last_;
  }
  void forget(uint64_t timer) override { timers_.erase(timer); }

  void turn() {
    std::deque<std::function<void()>> work;
    {
      const std::lock_guard guard(mutex_);
      work.swap(posted_);
    }
    for (auto it = timers_.begin(); it != timers_.end();) {
      if (it->second.first <= steady_seconds())
        work.push_back(std::move(it->second.second)), it = timers_.erase(it);
      else
        ++it;
    }
    for (auto& w : work) w();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  size_t timers() const { return timers_.size(); }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;
  std::map<uint64_t, std::pair<double, std::function<void()>>> timers_;
  uint64_t last_ = 0;
};

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() : folder_(*TempDir::make(fs::temp_directory_path(), "kdaemon_service")) {
    jobs_.journal.file = folder_.path() / "journal.db";
    options_.workers = 2;
    options_.drain_s = 5;
  }
  ~ServiceTest() override { stop(); }

  void stop() {
    if (service_) service_->drain();
    service_.reset();
  }
  void open() {
    stop();
    service_ = std::make_unique<Service>(options_, *Jobs::open(jobs_));
    router_ = service_->routes(reactor_);
    handler_ = service_->handler(*router_);
  }
  void begin() {
    auto evaluator = std::make_unique<ScriptedEvaluator>();
    evaluator_ = evaluator.get();
    ASSERT_TRUE(service_->begin(std::move(evaluator)));
  }
  void open_and_begin() {
    open();
    begin();
  }

  // Starts a request; its response is there once `done`.
  struct Pending {
    std::optional<HttpResponse> response;
  };
  std::shared_ptr<Pending> send(const std::string& method, const std::string& target, const std::string& body = "") {
    HttpRequest request;
    request.method = method;
    EXPECT_TRUE(parse_target(target, request));
    request.body = body;
    request.headers = headers_;
    request.peer = "127.0.0.1";
    auto pending = std::make_shared<Pending>();
    start<HttpResponse>(handler_(std::move(request)),
                        [pending](std::optional<HttpResponse> r, std::exception_ptr error) {
                          ASSERT_FALSE(error);
                          pending->response = std::move(r);
                        });
    return pending;
  }
  HttpResponse call(const std::string& method, const std::string& target, const std::string& body = "") {
    auto pending = send(method, target, body);
    for (const Stopwatch watch; !pending->response && watch.seconds() < 20;) reactor_.turn();
    EXPECT_TRUE(pending->response) << target;
    return pending->response.value_or(HttpResponse{});
  }
  static Json json(const HttpResponse& response) { return parse_json(response.body, "response").value_or(Json()); }
  static std::string evaluation(const std::string& candidate) {
    return Json{{"module", "m"}, {"candidate", candidate}}.dump();
  }

  TempDir folder_;
  JobsOptions jobs_;
  ServiceOptions options_;
  std::map<std::string, std::string> headers_;
  HandReactor reactor_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Router> router_;
  Handler handler_;
  ScriptedEvaluator* evaluator_ = nullptr;
};

TEST_F(ServiceTest, EvaluatesWithinTheWait) {
  open_and_begin();
  const auto response = call("POST", "/v1/evaluations?wait=10", evaluation("fail"));
  EXPECT_EQ(response.status, 200);
  const auto verdict = verdict_from_json(json(response));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->outcome, Outcome::kFail);
  EXPECT_EQ(json(call("GET", "/v1/evaluations/" + verdict->id)), json(response));
}

TEST_F(ServiceTest, AnswersAtOnceWithoutAWaitAndLaterWhenPolled) {
  open_and_begin();
  const auto response = call("POST", "/v1/evaluations", evaluation("sleep 0.05 pass"));
  EXPECT_EQ(response.status, 202);
  const std::string id = json(response)["id"];
  EXPECT_THAT(response.headers, testing::Contains(testing::Pair("Location", "/v1/evaluations/" + id)));
  EXPECT_EQ(call("GET", "/v1/evaluations/" + id + "?wait=0.001").status, 202);
  EXPECT_EQ(call("GET", "/v1/evaluations/" + id + "?wait=10").status, 200);
  EXPECT_EQ(call("GET", "/v1/modules/" + id).status, 404);
}

TEST_F(ServiceTest, TheWaitIsClampedByTheServer) {
  options_.max_wait_s = 0.02;
  open_and_begin();
  const Stopwatch watch;
  EXPECT_EQ(call("POST", "/v1/evaluations?wait=1e6", evaluation("sleep 1 pass")).status, 202);
  EXPECT_LT(watch.seconds(), 0.8);
}

TEST_F(ServiceTest, ModulesAreJobsToo) {
  open_and_begin();
  const auto response = call("POST", "/v1/modules?wait=10", Json{{"module", "fail"}, {"apis", {"torch.relu"}}}.dump());
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(json(response)["outcome"], "fail");
  EXPECT_EQ(json(response)["apis"], Json::array({"torch.relu"}));
  const std::string id = json(response)["id"];
  EXPECT_EQ(call("GET", "/v1/modules/" + id).status, 200);
}

TEST_F(ServiceTest, BadRequestsNameWhatIsWrong) {
  open_and_begin();
  const auto message = [&](const std::string& body) {
    const auto response = call("POST", "/v1/evaluations", body);
    EXPECT_EQ(response.status, 400);
    return json(response)["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(message("{"), HasSubstr("POST /v1/evaluations"));
  EXPECT_THAT(message("\"\xff\""), HasSubstr("JSON"));
  EXPECT_THAT(message(std::string(1000, '[')), HasSubstr("deeper"));
  EXPECT_THAT(message(R"({"module": "m", "candidate": "c", "chek": 1})"), HasSubstr("did you mean \"check\""));
  EXPECT_EQ(call("GET", "/v1/evaluations/x?wait=soon").status, 400);
  EXPECT_EQ(call("GET", "/v1/evaluations/none").status, 404);
  EXPECT_EQ(call("GET", "/nothing").status, 404);
  const auto wrong_method = call("DELETE", "/v1/evaluations");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_THAT(wrong_method.headers, testing::Contains(testing::Pair("Allow", "POST")));
}

TEST_F(ServiceTest, AFullQueueIs429WithRetryAfter) {
  jobs_.queue_limit = 1;
  options_.workers = 1;
  open_and_begin();
  (void)call("POST", "/v1/evaluations", evaluation("sleep 0.3 pass"));
  while (evaluator_->running == 0) std::this_thread::yield();
  EXPECT_EQ(call("POST", "/v1/evaluations", evaluation("2")).status, 202);
  const auto refused = call("POST", "/v1/evaluations", evaluation("3"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.headers, testing::Contains(testing::Pair("Retry-After", "1")));
}

TEST_F(ServiceTest, WantsItsTokenExceptForHealth) {
  options_.token = "secret";
  open_and_begin();
  EXPECT_EQ(call("GET", "/v1/capabilities").status, 401);
  EXPECT_EQ(call("GET", "/metrics").status, 401);
  EXPECT_EQ(call("GET", "/healthz").status, 200);
  EXPECT_EQ(call("GET", "/readyz").status, 200);
  for (const char* wrong : {"secret", "Bearer secre", "Bearer secrets", "Bearer ", "Basic secret"}) {
    headers_["authorization"] = wrong;
    EXPECT_EQ(call("GET", "/v1/capabilities").status, 401) << wrong;
  }
  headers_["authorization"] = "Bearer secret";
  EXPECT_EQ(call("GET", "/v1/capabilities").status, 200);
}

TEST_F(ServiceTest, IsNotReadyBeforeTheEvaluatorIs) {
  open();
  EXPECT_EQ(call("GET", "/healthz").status, 200);
  EXPECT_EQ(call("GET", "/readyz").status, 503);
  EXPECT_EQ(call("POST", "/v1/evaluations", evaluation("pass")).status, 503);
  begin();
  EXPECT_EQ(call("GET", "/readyz").status, 200);
  EXPECT_EQ(call("POST", "/v1/evaluations?wait=10", evaluation("pass")).status, 200);
}

TEST_F(ServiceTest, ABatchGivesItsVerdictsAsTheyFinish) {
  open_and_begin();
  const std::string rows = Json{{"key", "slow"}, {"module", "m"}, {"candidate", "sleep 0.2 pass"}}.dump() + "\n\n" +
                           Json{{"key", "quick"}, {"module", "m"}, {"candidate", "fail"}}.dump() + "\n" +
                           Json{{"key", "module"}, {"kind", "module"}, {"module", "m"}}.dump();
  const auto accepted = call("POST", "/v1/batches?id=batch-01", rows);
  EXPECT_EQ(accepted.status, 202);
  EXPECT_EQ(json(accepted)["ids"].size(), 3u);

  std::map<std::string, Json> items;
  for (uint64_t cursor = 0; items.size() < 3;) {
    const Json reply = json(call("GET", "/v1/batches/batch-01?wait=10&after=" + std::to_string(cursor)));
    ASSERT_FALSE(reply["items"].empty());
    for (const auto& item : reply["items"]) items[item["key"]] = item;
    cursor = reply["next"];
  }
  EXPECT_EQ(items["quick"]["verdict"]["outcome"], "fail");
  EXPECT_EQ(items["module"]["report"]["outcome"], "pass");
  EXPECT_GT(items["slow"]["sequence"], items["quick"]["sequence"]);

  const Json all = json(call("GET", "/v1/batches/batch-01?wait=10"));
  EXPECT_EQ(all["total"], 3);
  EXPECT_EQ(all["finished"], 3);
  EXPECT_EQ(all["items"].size(), 3u);
  EXPECT_EQ(all["more"], false);
}

TEST_F(ServiceTest, WithoutACursorABatchIsWaitedForAsAWhole) {
  open_and_begin();
  (void)call("POST", "/v1/batches?id=batch-01", evaluation("pass") + "\n" + evaluation("sleep 0.1 pass"));
  EXPECT_EQ(json(call("GET", "/v1/batches/batch-01?wait=10"))["finished"], 2);
}

TEST_F(ServiceTest, ABadRowRefusesTheBatchByLine) {
  open_and_begin();
  const auto refusal = call("POST", "/v1/batches", evaluation("1") + "\n" + R"({"module": "m", "candidat": 1})");
  EXPECT_EQ(refusal.status, 400);
  EXPECT_THAT(refusal.body, HasSubstr("line 2: field"));
  EXPECT_EQ(call("POST", "/v1/batches?id=../../etc", evaluation("1")).status, 400);
  EXPECT_EQ(call("POST", "/v1/batches", "\n\n").status, 400);
  EXPECT_EQ(service_->jobs().statistics().accepted, 0u);
}

TEST_F(ServiceTest, CancelsARunningJob) {
  open_and_begin();
  const std::string id = json(call("POST", "/v1/evaluations", evaluation("sleep 30 pass")))["id"];
  while (evaluator_->running == 0) std::this_thread::yield();
  auto waiting = send("GET", "/v1/evaluations/" + id + "?wait=20");
  EXPECT_EQ(call("DELETE", "/v1/evaluations/" + id).status, 200);
  for (const Stopwatch watch; !waiting->response && watch.seconds() < 5;) reactor_.turn();
  ASSERT_TRUE(waiting->response);
  EXPECT_EQ(waiting->response->status, 410);
  for (const Stopwatch watch; evaluator_->running > 0 && watch.seconds() < 5;) reactor_.turn();
  EXPECT_EQ(evaluator_->running, 0);
  EXPECT_EQ(reactor_.timers(), 0u);
  EXPECT_EQ(call("DELETE", "/v1/evaluations/none").status, 404);
}

TEST_F(ServiceTest, AnErrorOfTheEvaluatorIsUnscoredAndTheNextVerdictIsRight) {
  open_and_begin();
  EXPECT_EQ(json(call("POST", "/v1/evaluations?wait=10", evaluation("throw")))["reason"], "internal");
  EXPECT_EQ(json(call("POST", "/v1/evaluations?wait=10", evaluation("pass")))["outcome"], "pass");
}

TEST_F(ServiceTest, ADrainFinishesWhatRunsAndKeepsWhatWaits) {
  options_.workers = 1;
  open_and_begin();
  const std::string running = json(call("POST", "/v1/evaluations", evaluation("sleep 0.1 pass")))["id"];
  while (evaluator_->running == 0) std::this_thread::yield();
  const std::string queued = json(call("POST", "/v1/evaluations", evaluation("fail")))["id"];
  auto polling = send("GET", "/v1/evaluations/" + queued + "?wait=30");
  service_->drain();
  EXPECT_EQ(call("GET", "/readyz").status, 503);
  EXPECT_EQ(call("POST", "/v1/evaluations", evaluation("new")).status, 503);
  EXPECT_EQ(call("GET", "/v1/evaluations/" + running).status, 200);
  service_->wake_all();
  reactor_.turn();
  ASSERT_TRUE(polling->response);
  EXPECT_EQ(polling->response->status, 202);
  EXPECT_EQ(json(*polling->response)["state"], "queued");

  open_and_begin();
  EXPECT_EQ(json(call("GET", "/v1/evaluations/" + queued + "?wait=10"))["outcome"], "fail");
}

TEST_F(ServiceTest, ADrainThatTakesTooLongStopsWhatRunsAndTheNextDaemonRunsItAgain) {
  options_.drain_s = 0.05;
  open_and_begin();
  const std::string id = json(call("POST", "/v1/evaluations", evaluation("sleep 0.6 fail")))["id"];
  while (evaluator_->running == 0) std::this_thread::yield();
  open_and_begin();
  EXPECT_EQ(json(call("GET", "/v1/evaluations/" + id + "?wait=10"))["outcome"], "fail");
}

TEST_F(ServiceTest, MetricsTellWhatHappened) {
  open_and_begin();
  (void)call("POST", "/v1/evaluations?wait=10", evaluation("fail"));
  (void)call("POST", "/v1/evaluations?wait=10", evaluation("fail"));  // from the cache: no second run
  (void)call("POST", "/v1/evaluations?wait=10", evaluation("pass"));
  (void)call("GET", "/nothing");
  const std::string text = call("GET", "/metrics").body;
  for (const char* line :
       {"keck_answers_total{kind=\"evaluation\",outcome=\"fail\",stage=\"compare\"} 1",
        "keck_answers_total{kind=\"evaluation\",outcome=\"pass\",stage=\"\"} 1", "keck_right_total 1",
        "keck_stage_seconds_count{stage=\"build\"} 2", "keck_result_cache_hits_total 1", "keck_jobs_accepted_total 3",
        "keck_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"} 1", "keck_evaluator_broker_hits 3",
        "keck_queued_works 0"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_EQ(evaluator_->evaluations, 2);
}

TEST_F(ServiceTest, DescribesEveryRouteWithSchemasThatExist) {
  open_and_begin();
  const Json api = json(call("GET", "/openapi.json"));
  EXPECT_EQ(api, describe_api());
  size_t operations = 0;
  for (const auto& [path, methods] : api["paths"].items()) operations += methods.size();
  EXPECT_EQ(operations, router_->routes().size());
  const std::string text = api.dump();
  const std::string mark = "#/components/schemas/";
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const std::string name = text.substr(at + mark.size(), text.find('"', at) - at - mark.size());
    EXPECT_TRUE(api["components"]["schemas"].contains(name)) << name;
  }
}

// A change of the API is seen in review.
TEST_F(ServiceTest, TheDescriptionInDocsIsUpToDate) {
  const auto text = read_file("docs/openapi.json");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_TRUE(parse_json(*text, "docs/openapi.json").value() == describe_api())
      << "run: bin/keck openapi > docs/openapi.json";
}

TEST_F(ServiceTest, TheSchemasShowWhatIsReallySent) {
  const Json schemas = describe_api()["components"]["schemas"];
  const auto same_names = [](const Json& schema, const Json& value) {
    for (const auto& [name, unused] : value.items()) EXPECT_TRUE(schema["properties"].contains(name)) << name;
    for (const auto& [name, unused] : schema["properties"].items()) EXPECT_TRUE(value.contains(name)) << name;
  };
  Verdict verdict;
  verdict.correctness.emplace();
  verdict.timing.emplace();
  const Json sent = to_json(verdict);
  same_names(schemas["Verdict"], sent);
  same_names(schemas["Verdict"]["properties"]["timing"], sent["timing"]);
  same_names(schemas["Verdict"]["properties"]["correctness"], sent["correctness"]);
  same_names(schemas["ModuleReport"], to_json(ModuleReport()));
  EvaluationRequest request;
  request.seed = 1;
  same_names(schemas["EvaluationRequest"], to_json(request));
}

}  // namespace
}  // namespace kz::keck
