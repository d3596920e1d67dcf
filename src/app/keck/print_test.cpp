#include "app/keck/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kz::keck {
namespace {

using testing::HasSubstr;
using testing::Not;

Verdict verdict(Outcome outcome, Stage stage, const std::string& reason) {
  Verdict v;
  v.outcome = outcome;
  v.stage = stage;
  v.reason = reason;
  v.accepted = outcome == Outcome::kPass;
  return v;
}

TEST(Print, APassShowsSpeedWithItsInterval) {
  Verdict v = verdict(Outcome::kPass, Stage::kNone, "");
  v.timing = Timing{};
  v.timing->candidate_ms = {0.412, 0.02, 0.4, 24};
  v.timing->eager_ms = {0.951, 0.02, 0.9, 24};
  v.timing->speedup = 2.308;
  v.timing->ci95[0] = 2.18, v.timing->ci95[1] = 2.44;
  v.timing->decision = Decision::kFaster;
  v.timing->method = "gated_cpu";
  const std::string text = pretty(v, {});
  EXPECT_THAT(text, HasSubstr("✓ pass  right  2.31x [2.18, 2.44] faster than eager\n"));
  EXPECT_THAT(text, HasSubstr("412 us ± 10 us, eager 951 us ± 10 us (24 calls, gated_cpu)"));
}

TEST(Print, APassThatPolicyDoesNotAcceptSaysSo) {
  Verdict v = verdict(Outcome::kPass, Stage::kNone, "");
  v.accepted = false;
  v.labels = {"torch_compute"};
  EXPECT_THAT(pretty(v, {}), HasSubstr("pass  not accepted: torch_compute"));
}

TEST(Print, AMismatchSaysWhere) {
  Verdict v = verdict(Outcome::kFail, Stage::kCompare, "wrong_values");
  v.correctness = Correctness{5, 1, 1.5, 40, 1, 0.125, "strict", Mismatch{1, {3, 17}, 1.25, 0}};
  const std::string text = pretty(v, {});
  EXPECT_THAT(text, HasSubstr("✗ fail at compare  wrong_values"));
  EXPECT_THAT(text, HasSubstr("output 1[3, 17]: expected 1.25, got 0; 12.5% of its elements are wrong"));
}

TEST(Print, ForeignOutputCannotRepaintTheTerminalAndIsCapped) {
  Verdict v = verdict(Outcome::kFail, Stage::kBuild, "compile_error");
  v.build.log = "main.cpp:3:5: error: 'w' was not declared\n\033[2J\033[31mred\r\n";
  for (int i = 0; i < 100; ++i) v.build.log += "note " + std::to_string(i) + "\n";
  const std::string text = pretty(v, {.colour = false, .candidate_name = "kernel.py"});
  EXPECT_THAT(text, HasSubstr("compiler  kernel.py\n    main.cpp:3:5: error: 'w' was not declared\n"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text, HasSubstr("more lines"));
  EXPECT_THAT(text, Not(HasSubstr("note 99")));
}

TEST(Print, ColoursOnlyWhenAsked) {
  const Verdict v = verdict(Outcome::kUnscored, Stage::kTask, "no_model");
  EXPECT_THAT(pretty(v, {.colour = true}), HasSubstr("\033[33m"));
  EXPECT_THAT(pretty(v, {.colour = false}), Not(HasSubstr("\033")));
}

TEST(Print, AModuleReportShowsItsSequence) {
  ModuleReport report;
  report.outcome = Outcome::kPass;
  report.apis = {"torch.relu", "torch.sum"};
  report.operators = {"torch.relu", "torch.sum"};
  EXPECT_THAT(pretty(report, {}), HasSubstr("torch.relu > torch.sum"));
}

}  // namespace
}  // namespace kz::keck
