#include "lm/openai.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/json.h"

namespace kz::lm {
namespace {

using testing::HasSubstr;

// A real HTTP server on a loopback port that speaks the OpenAI form as one of its test's lambdas decides.
class OpenAiTest : public testing::Test {
 protected:
  void SetUp() override {
    server_.Get("/v1/models", [this](const httplib::Request&, httplib::Response& r) {
      if (loading_-- > 0) {
        r.status = 503;
        r.set_content(R"({"error": {"message": "Loading model", "code": 503}})", "application/json");
        return;
      }
      r.set_content(R"({"data": [{"id": "m1"}]})", "application/json");
    });
    server_.Post("/v1/chat/completions", [this](const httplib::Request& q, httplib::Response& r) { chat_(q, r); });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  void TearDown() override {
    server_.stop();
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  static std::string reply(const std::string& text, const std::string& finish = "stop") {
    return dump_json(
        {{"choices", {{{"message", {{"role", "assistant"}, {"content", text}}}, {"finish_reason", finish}}}}});
  }
  static std::vector<Prompt> prompts(size_t n) {
    std::vector<Prompt> out;
    for (size_t i = 0; i < n; ++i) out.push_back({"", i + 1, "system", "question " + std::to_string(i)});
    return out;
  }

  std::function<void(const httplib::Request&, httplib::Response&)> chat_ = [](const httplib::Request&,
                                                                              httplib::Response&) {};
  std::atomic<int> loading_{0};  // questions for the models that are answered by 503
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST_F(OpenAiTest, AnswersInOrderWhateverOrderTheyComeIn) {
  chat_ = [](const httplib::Request& q, httplib::Response& r) {
    const Json body = Json::parse(q.body);
    const std::string question = body["messages"][1]["content"];
    EXPECT_EQ(body["model"], "m1");
    EXPECT_EQ(body["messages"][0]["role"], "system");
    if (question == "question 0") std::this_thread::sleep_for(std::chrono::milliseconds(50));
    r.set_content(reply("to " + question + " by seed " + std::to_string(body["seed"].get<int>())), "application/json");
  };
  auto server = open_server({.url = url()});
  ASSERT_TRUE(server) << server.error().message;
  std::set<size_t> seen;
  const auto out = (*server)->generate(prompts(20), {}, [&](size_t i, const Completion& c) {
    EXPECT_TRUE(seen.insert(i).second);
    EXPECT_FALSE(c.text.empty());
  });
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(seen.size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ((*out)[i].text, "to question " + std::to_string(i) + " by seed " + std::to_string(i + 1));
    EXPECT_EQ((*out)[i].finish, "stop");
  }
}

TEST_F(OpenAiTest, BusyServersAreAskedAgain) {
  std::atomic<int> calls{0};
  chat_ = [&](const httplib::Request&, httplib::Response& r) {
    if (calls++ == 0) {
      r.status = 503;
      return;
    }
    r.set_content(reply("late", "length"), "application/json");
  };
  auto server = open_server({.url = url() + "/v1/"});
  ASSERT_TRUE(server);
  const auto out = (*server)->generate(prompts(1), {});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ((*out)[0].text, "late");
  EXPECT_EQ((*out)[0].finish, "length");
  EXPECT_EQ(calls, 2);
}

TEST_F(OpenAiTest, AServerThatLoadsItsModelIsWaitedFor) {
  loading_ = 1;
  const auto impatient = open_server({.url = url(), .retry_s = 0});
  ASSERT_FALSE(impatient);
  EXPECT_THAT(impatient.error().message, HasSubstr("answers 503: Loading model: it is loading or busy"));
  loading_ = 5;  // pauses of 7.75 s: longer than an address where nobody listens is given
  const auto server = open_server({.url = url()});
  EXPECT_TRUE(server) << server.error().message;
}

TEST_F(OpenAiTest, OneFailureIsOneCompletionsError) {
  chat_ = [](const httplib::Request& q, httplib::Response& r) {
    if (q.body.find("question 1") != std::string::npos) {
      r.status = 400;
      r.set_content(R"({"error": {"message": "context length\nexceeded"}})", "application/json");
      return;
    }
    r.set_content(reply("fine"), "application/json");
  };
  auto server = open_server({.url = url()});
  auto out = (*server)->generate(prompts(3), {});
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[1].finish, "error");
  EXPECT_THAT((*out)[1].error, HasSubstr("context length exceeded"));
  EXPECT_EQ((*out)[2].text, "fine");
  out = (*server)->generate({prompts(2)[1]}, {});
  ASSERT_FALSE(out) << "nothing at all came back";
  EXPECT_EQ(out.error().code, "request");
}

TEST_F(OpenAiTest, ALateServerIsNotOneThatIsGone) {
  chat_ = [](const httplib::Request&, httplib::Response&) { std::this_thread::sleep_for(std::chrono::seconds(3)); };
  const auto server = open_server({.url = url(), .timeout_s = 1});
  ASSERT_TRUE(server) << server.error().message;
  const auto out = (*server)->generate(prompts(1), {});
  ASSERT_FALSE(out);
  EXPECT_THAT(out.error().message, HasSubstr("no answer within 1 s: ask for fewer --max-new-tokens"));
}

TEST_F(OpenAiTest, StrangeReplies) {
  for (const char* body :
       {"", "not json", "[]", "{}", R"({"choices": []})", R"({"choices": [1]})", R"({"choices": {"a": 1}})"}) {
    chat_ = [&](const httplib::Request&, httplib::Response& r) { r.set_content(body, "application/json"); };
    auto server = open_server({.url = url()});
    EXPECT_FALSE((*server)->generate(prompts(1), {})) << body;
  }
  chat_ = [](const httplib::Request&, httplib::Response& r) {
    r.set_content(R"({"choices": [{"message": {"content": null}, "finish_reason": null}]})", "application/json");
  };
  auto server = open_server({.url = url()});
  const auto out = (*server)->generate(prompts(1), {});
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[0].text, "");
}

TEST(OpenAi, AddressErrorsSayWhatToDo) {
  EXPECT_TRUE(is_server("http://x"));
  EXPECT_TRUE(is_server("https://x"));
  EXPECT_FALSE(is_server("models/nano"));
  const auto malformed = open_server({.url = "localhost"});
  ASSERT_FALSE(malformed);
  EXPECT_EQ(malformed.error().code, "url");
  const auto nobody = open_server({.url = "http://127.0.0.1:1", .retry_s = 0});
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, "connect");
  EXPECT_THAT(nobody.error().message, HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace kz::lm
