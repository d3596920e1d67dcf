#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "keck/job/job.h"

namespace kz::keck {
namespace {

Json minimal() { return {{"module", "class Model: pass"}, {"candidate", "class ModelNew: pass"}}; }

std::string error_of(const Json& body) {
  const auto request = evaluation_from_json(body);
  return request ? "accepted" : request.error().code + ": " + request.error().message;
}

TEST(EvaluationRequest, DefaultsAreTheStrictOnes) {
  const auto request = evaluation_from_json(minimal());
  ASSERT_TRUE(request);
  EXPECT_EQ(request->check, "strict");
  EXPECT_TRUE(request->timing);
  EXPECT_TRUE(request->policy.require_custom_kernel);
  EXPECT_FALSE(request->policy.allow_libraries);
  EXPECT_FALSE(request->seed);
  EXPECT_TRUE(request->use_result_cache);
}

TEST(EvaluationRequest, SurvivesAJourneyThroughJson) {
  EvaluationRequest request;
  request.module = "m";
  request.candidate = "c";
  request.backend = "triton";
  request.check = "kernelbench";
  request.timing = false;
  request.seed = std::numeric_limits<uint64_t>::max();
  request.policy.allow_libraries = true;
  request.deadline_s = 2.5;
  request.priority = -3;
  request.client = "me";
  request.use_result_cache = false;
  const auto back = evaluation_from_json(*parse_json(dump_json(to_json(request)), "test"));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(request));
  EXPECT_EQ(back->seed, request.seed);
}

TEST(EvaluationRequest, ErrorsNameTheField) {
  Json body = minimal();
  body["candidat"] = "x";
  EXPECT_EQ(error_of(body), "request: unknown field \"candidat\"; did you mean \"candidate\"?");

  body = minimal();
  body["policy"]["require_custom_kernels"] = true;
  EXPECT_NE(error_of(body).find("\"policy.require_custom_kernel\"?"), std::string::npos) << error_of(body);

  body = minimal();
  body.erase("module");
  EXPECT_EQ(error_of(body), "request: field \"module\" is required and must not be empty");

  body = minimal();
  body["candidate"] = std::string((1 << 20) + 1, 'x');
  EXPECT_EQ(error_of(body), "request: field \"candidate\" has 1048577 bytes; the limit is 1 MiB");
  body["candidate"] = std::string(1 << 20, 'x');
  EXPECT_EQ(error_of(body), "accepted");

  EXPECT_NE(error_of(Json::array()).find("must be a JSON object"), std::string::npos);
}

struct BadValue {
  const char* field;
  Json value;
};

class EvaluationRequestBadValues : public testing::TestWithParam<BadValue> {};

TEST_P(EvaluationRequestBadValues, AreRefusedByName) {
  Json body = minimal();
  body[GetParam().field] = GetParam().value;
  const auto request = evaluation_from_json(body);
  ASSERT_FALSE(request);
  EXPECT_NE(request.error().message.find(GetParam().field), std::string::npos) << request.error().message;
}

INSTANTIATE_TEST_SUITE_P(Table, EvaluationRequestBadValues,
                         testing::Values(BadValue{"module", 1}, BadValue{"backend", "rocm"}, BadValue{"check", "lax"},
                                         BadValue{"timing", "yes"}, BadValue{"seed", -1}, BadValue{"seed", 1.5},
                                         BadValue{"seed", "7"}, BadValue{"priority", 11}, BadValue{"priority", 0.5},
                                         BadValue{"deadline_s", -1}, BadValue{"deadline_s", "nan"},
                                         BadValue{"client", std::string(129, 'c')}, BadValue{"policy", true}));

TEST(ModuleRequest, IsStrictToo) {
  EXPECT_TRUE(module_request_from_json({{"module", "m"}, {"apis", {"torch.relu"}}}));
  const auto bad = module_request_from_json({{"module", "m"}, {"api", {"torch.relu"}}});
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("did you mean \"apis\""), std::string::npos);
  EXPECT_FALSE(module_request_from_json({{"module", "m"}, {"apis", "torch.relu"}}));
}

TEST(WorkKey, DependsOnWhatCanChangeTheAnswerOnly) {
  EvaluationRequest a;
  a.module = "m";
  a.candidate = "c";
  EvaluationRequest b = a;
  b.client = "other";
  b.priority = 5;
  EXPECT_EQ(work_key(a, "env"), work_key(b, "env"));
  EXPECT_NE(work_key(a, "env"), work_key(a, "another torch"));
  b.check = "kernelbench";
  EXPECT_NE(work_key(a, "env"), work_key(b, "env"));
  ModuleRequest module;
  module.module = "m";
  EXPECT_NE(work_key(a, "env"), work_key(module, "env"));
}

TEST(Verdict, SurvivesAJourneyThroughJsonWithNonFiniteNumbers) {
  Verdict v;
  v.id = "1";
  v.outcome = Outcome::kFail;
  v.stage = Stage::kCompare;
  v.reason = "wrong_values";
  v.correctness = Correctness{5,
                              2,
                              std::numeric_limits<double>::infinity(),
                              std::nan(""),
                              1e-4,
                              0.5,
                              "strict",
                              Mismatch{1, {0, 3}, 1.5, -std::numeric_limits<double>::infinity()}};
  v.timing = Timing{};
  v.timing->candidate_ms = {1, 0.1, 0.9, 24};
  v.timing->eager_ms = {2, 0.2, 1.8, 24};
  v.timing->speedup = 2;
  v.timing->ci95[0] = 1.8, v.timing->ci95[1] = 2.2;
  v.timing->decision = Decision::kFaster;
  v.timing->method = "gated_cpu";
  v.labels = {"torch_compute"};
  v.build = {1.5, 1.2, "miss", "log"};
  v.stages_ms = {{"build", 1500}, {"check", 20}};
  v.backend = "cpp";
  v.device = "a cpu";
  v.sandbox = "strong";
  v.seed = std::numeric_limits<uint64_t>::max() - 1;
  v.log_tail = "line\n";
  const std::string text = dump_json(to_json(v));
  EXPECT_NE(text.find("\"max_abs_error\":\"inf\""), std::string::npos);
  const auto back = verdict_from_json(*parse_json(text, "test"));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(dump_json(to_json(*back)), text);
  EXPECT_TRUE(std::isnan(back->correctness->max_rel_error));
  EXPECT_EQ(back->seed, v.seed);
}

TEST(Verdict, RefusesWhatIsNone) {
  for (const Json& bad : {Json(1), Json::object(), Json{{"outcome", "passed"}}}) {
    const auto verdict = verdict_from_json(bad);
    ASSERT_FALSE(verdict);
    EXPECT_EQ(verdict.error().code, "protocol");
  }
}

TEST(ModuleReport, SurvivesAJourneyThroughJson) {
  ModuleReport report;
  report.id = "r";
  report.outcome = Outcome::kPass;
  report.apis = {"torch.relu"};
  report.operators = {"torch.relu", "torch.sum"};
  report.canonical_source = "x";
  report.canonical_hash = "h";
  report.run_ms = 1.25;
  report.bytes = 1 << 20;
  const auto back = module_report_from_json(to_json(report));
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json(*back), to_json(report));
}

}  // namespace
}  // namespace kz::keck
