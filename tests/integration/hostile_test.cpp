// Candidates that fight their judge, sent to the real daemon: each fails, and nobody else notices. The files are those
// of tests/exploits; there they meet the evaluator one by one, here the whole service with innocents beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>

#include "integration/run_keck.h"
#include "keck/client/evaluations.h"
#include "keck/client/local_server.h"

namespace kz::keck {
namespace {

using namespace std::chrono_literals;

struct Hostile {
  std::string candidate;             // of tests/exploits/candidates
  std::vector<std::string> reasons;  // that its verdict may give
};

void PrintTo(const Hostile& h, std::ostream* out) { *out << h.candidate; }

class KeckHostile : public testing::TestWithParam<Hostile> {
 protected:
  static void SetUpTestSuite() {
    state_ = new TempDir(*TempDir::make(fs::temp_directory_path(), "kdaemon_hostile"));
    LocalServerOptions options;
    options.layout = test_layout();
    options.state = state_->path();
    options.workers = 2;
    auto server = LocalServer::start(options);
    ASSERT_TRUE(server) << server.error().message;
    server_ = new LocalServer(std::move(*server));
  }
  static void TearDownTestSuite() {
    delete server_;
    delete state_;
  }

  static std::string source(const std::string& file) {
    auto text = read_file("tests/exploits/" + file + ".py");
    EXPECT_TRUE(text) << text.error().message;
    return text.value_or("");
  }
  static EvaluationRequest request(const std::string& candidate, double deadline_s) {
    EvaluationRequest r;
    r.module = source("modules/scale");
    r.candidate = source("candidates/" + candidate);
    r.backend = "cpp";
    r.timing = false;
    r.deadline_s = deadline_s;
    r.use_result_cache = false;  // each verdict is a run of its own
    return r;
  }
  static Client client() { return *Client::make({.url = server_->url()}); }
  static void expect_honest(const Verdict& v, const char* when) {
    EXPECT_TRUE(v.right()) << when << ": " << to_string(v.outcome) << " " << v.reason << " " << v.message;
  }

  static TempDir* state_;
  static LocalServer* server_;
};
TempDir* KeckHostile::state_ = nullptr;
LocalServer* KeckHostile::server_ = nullptr;

// The honest kernel with another constant: it runs as well as the right one, and must be told from it.
EvaluationRequest wrong(EvaluationRequest honest) {
  const std::string constant = "* 2.0f + 1.0f";
  const size_t at = honest.candidate.find(constant);
  EXPECT_NE(at, std::string::npos);
  if (at != std::string::npos) honest.candidate.replace(at, constant.size(), "* 2.0f + 1.1f");
  return honest;
}

TEST_P(KeckHostile, FailsAndNobodyElseDoes) {
  constexpr double kShort = 8, kLong = 90;
  Evaluations evaluations(client(), 8);
  evaluations.submit(0, request(GetParam().candidate, kShort));
  evaluations.submit(1, request("honest_scale", kLong));
  evaluations.submit(2, wrong(request("honest_scale", kLong)));
  std::map<size_t, Verdict> verdicts;
  while (evaluations.outstanding() > 0) {
    auto got = evaluations.next(180s);
    ASSERT_TRUE(got) << "a verdict did not come";
    verdicts.insert(std::move(*got));
  }
  const Verdict& hostile = verdicts[0];
  EXPECT_EQ(hostile.outcome, Outcome::kFail) << hostile.reason << " " << hostile.message;
  EXPECT_THAT(GetParam().reasons, testing::Contains(hostile.reason)) << hostile.message;
  expect_honest(verdicts[1], "beside it");
  EXPECT_EQ(verdicts[2].reason, "wrong_values") << verdicts[2].message;

  const auto next = client().evaluate(request("honest_scale", kLong));
  ASSERT_TRUE(next) << next.error().message;
  expect_honest(*next, "after it");
  const auto next_wrong = client().evaluate(wrong(request("honest_scale", kLong)));
  ASSERT_TRUE(next_wrong) << next_wrong.error().message;
  EXPECT_EQ(next_wrong->outcome, Outcome::kFail);
  EXPECT_EQ(next_wrong->reason, "wrong_values") << next_wrong->message;
}

INSTANTIATE_TEST_SUITE_P(All, KeckHostile,
                         testing::Values(Hostile{"e33_forged_verdict", {"exit"}}, Hostile{"f_exit_at_import", {"exit"}},
                                         Hostile{"f_sleep", {"timeout"}},
                                         Hostile{"f_fork_bomb", {"timeout", "memory", "crash"}},
                                         Hostile{"e41_tampering", {"wrong_values"}},
                                         Hostile{"f_socket", {"wrong_values"}},
                                         Hostile{"f_flood", {"output_flood", "timeout"}}),
                         [](const auto& row) { return row.param.candidate; });

}  // namespace
}  // namespace kz::keck
