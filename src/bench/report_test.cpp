#include "bench/report.h"

#include <gtest/gtest.h>

namespace kz::bench {
namespace {

Json small_run() {
  Json data = Json::parse(R"({
    "run": {"name": "demo <1>", "config": "seed = 1\n"},
    "summary": {"coder_accuracy_before": 0.5, "coder_accuracy_after": 0.56, "gain_ci95": [0.02, 0.1], "heldout_tasks": 200},
    "steps": [{"round": 1, "phase": "proposer", "step": 1, "metrics": {"proposer_valid": 0.4, "frontier_reward": "nan", "entropy": 0.3}},
              {"round": 1, "phase": "coder", "step": 1, "metrics": {"coder_accuracy": 0.5, "entropy": 0.2}}],
    "frontier": [{"round": 1, "right_of_8": [1, 0, 0, 0, 2, 0, 0, 0, 1]}],
    "time": {"verify": 10, "generate": 12.5},
    "evaluation": {"before": {"pass_at_k": [0.5, 0.6], "fast_p": [0.5, 0.4, 0.3, 0.2, 0.1, 0, 0]}},
    "apis": [{"name": "torch.relu", "modules": 3, "right": 2, "rollouts": 8}],
    "rollouts": [{"round": 1, "phase": "coder", "step": 1, "prompt": "p", "text": "</script><b>", "outcome": "fail", "reward": 0}]
  })");
  return data;
}

TEST(Report, SpecsSkipWhatIsMissing) {
  const Json specs = figure_specs(small_run());
  std::string names;
  for (const Json& spec : specs) names += spec["name"].get<std::string>() + " ";
  EXPECT_EQ(names, "dynamics policy frontier pass_at_k fast_p time apis ");
  EXPECT_EQ(specs[0]["series"].size(), 2u);  // a metric that is NaN everywhere draws no line
  EXPECT_TRUE(figure_specs(Json::object()).empty());
}

TEST(Report, PageEscapesWhatModelsWrote) {
  const auto layout = find_layout();
  ASSERT_TRUE(layout) << layout.error().message;
  const std::string page = render_report(small_run(), {{"time", "<svg id='t'></svg>"}}, *layout).value();
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>"), std::string::npos);
  EXPECT_NE(page.find("demo &lt;1&gt;"), std::string::npos);
  EXPECT_NE(page.find("<svg id='t'>"), std::string::npos);
  EXPECT_NE(page.find("gain +6.0 points, 95% interval +2.0 to +10.0"), std::string::npos);
}

TEST(Report, FiguresAreDrawnAndRepeatByteForByte) {
  const auto layout = find_layout();
  ASSERT_TRUE(layout) << layout.error().message;
  const auto first = draw_figures(small_run(), *layout);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->size(), 7u);
  EXPECT_EQ(first->at("time").rfind("<svg", 0), 0u);
  EXPECT_EQ(draw_figures(small_run(), *layout).value(), *first);
}

}  // namespace
}  // namespace kz::bench
