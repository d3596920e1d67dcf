// The decision table of the gate: one good set of facts, and each fault alone.
#include "keck/worker/module_gate.h"

#include <gtest/gtest.h>

namespace kz::keck {
namespace {

ApiNames names() {
  ApiNames names;
  names.canonical = {{"torch.relu", "torch.relu"}, {"torch.nn.ReLU", "torch.relu"}, {"torch.softmax", "torch.softmax"}};
  return names;
}

Json good() {
  return Json::parse(
      R"({"ok": true, "parsed": true, "forbidden": [], "missing": [], "apis": ["torch.relu", "torch.softmax"],
    "canonical_source": "import torch\n", "canonical_hash": "ab",
    "ran": {"run_ms": 0.5, "bytes": 4096, "state_bytes": 0, "outputs": 1, "finite": true, "again": 0.0, "fresh": 0.0, "other_rng": 0.0,
      "inputs": {"tensors": 1, "changed": 1.0, "distinct": 500, "count": 512}, "depends": [1.5], "ulp": 1e-7, "wide": 2e-7,
      "operators": ["torch.relu", "torch.softmax"],
      "neutral": {"torch.relu": {"calls": 1, "noise": 2.0, "identity": 0.5}, "torch.softmax": {"calls": 1, "noise": "inf", "identity": null}}}})");
}

ModuleRequest asked(std::vector<std::string> apis) {
  ModuleRequest request;
  request.apis = std::move(apis);
  return request;
}

TEST(ModuleGate, PassesASoundModule) {
  const ModuleReport report = decide(good(), asked({"torch.nn.ReLU", "torch.softmax"}), names());
  EXPECT_EQ(report.outcome, Outcome::kPass) << report.message;
  EXPECT_EQ(report.operators, (std::vector<std::string>{"torch.relu", "torch.softmax"}));
  EXPECT_EQ(decide(good(), asked({}), names()).outcome, Outcome::kPass);
}

struct Case {
  const char *pointer, *value, *stage, *reason;
};

class ModuleGateFaults : public testing::TestWithParam<Case> {};

TEST_P(ModuleGateFaults, AreRejected) {
  Json facts = good();
  facts[Json::json_pointer(GetParam().pointer)] = Json::parse(GetParam().value);
  const ModuleReport report = decide(facts, asked({"torch.relu", "torch.softmax"}), names());
  EXPECT_EQ(report.outcome, Outcome::kFail);
  EXPECT_EQ(report.stage, GetParam().stage);
  EXPECT_EQ(report.reason, GetParam().reason);
  EXPECT_FALSE(report.message.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Table, ModuleGateFaults,
    testing::Values(
        Case{"/parsed", "false", "parse", "syntax_error"},             //
        Case{"/missing", R"(["Model"])", "format", "no_model"},        //
        Case{"/missing", R"(["get_inputs"])", "format", "no_inputs"},  //
        Case{"/forbidden", R"([{"code": "import", "line": 1, "what": "os"}])", "format", "forbidden_import"},
        Case{"/forbidden", R"([{"code": "method", "line": 1, "what": "frob"}])", "apis", "unknown_api"},
        Case{"/apis", R"(["torch.relu"])", "apis", "missing_api"},                              //
        Case{"/apis", R"(["torch.relu", "torch.softmax", "torch.exp"])", "apis", "extra_api"},  //
        Case{"/ran", "null", "run", "not_run"},                                                 //
        Case{"/ran/error", R"({"step": "construct", "reason": "exception", "message": "x"})", "construct", "exception"},
        Case{"/ran/finite", "false", "finite", "non_finite"},                  //
        Case{"/ran/again", "0.1", "deterministic", "state"},                   //
        Case{"/ran/fresh", R"("inf")", "deterministic", "not_repeatable"},     //
        Case{"/ran/other_rng", R"("nan")", "deterministic", "random"},         //
        Case{"/ran/inputs/changed", "0.0", "inputs", "fixed_inputs"},          //
        Case{"/ran/inputs/distinct", "3", "inputs", "few_values"},             //
        Case{"/ran/depends", "[1.0, 0.0]", "inputs", "input_ignored"},         //
        Case{"/ran/neutral/torch.relu/calls", "0", "apis", "not_called"},      //
        Case{"/ran/neutral/torch.relu/noise", "0.0", "apis", "dead_call"},     //
        Case{"/ran/neutral/torch.relu/identity", "0.0", "apis", "idle_call"},  //
        Case{"/ran/neutral", "{}", "apis", "not_called"},                      //
        Case{"/ran/ulp", "0.01", "conditioned", "ill_conditioned"},            //
        Case{"/ran/wide", "0.01", "conditioned", "ill_conditioned"},           //
        Case{"/ran/run_ms", "1000", "limits", "too_slow"},                     //
        Case{"/ran/bytes", "1e12", "limits", "too_large"},                     //
        Case{"/ran/again", "null", "deterministic", "state"}));

// Whatever a child may have written, the decision is one and never an exception.
TEST(ModuleGate, SurvivesAnyJson) {
  for (const char* text :
       {"{}", "[]", "7", R"({"parsed": 3, "forbidden": {}, "apis": 1, "ran": []})",
        R"({"parsed": true, "forbidden": [1], "missing": [2], "apis": [{}], "ran": {"error": 4, "neutral": []}})"})
    EXPECT_EQ(decide(Json::parse(text), asked({"torch.relu"}), names()).outcome, Outcome::kFail) << text;
}

}  // namespace
}  // namespace kz::keck
