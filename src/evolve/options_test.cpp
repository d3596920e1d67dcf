#include "evolve/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kz::evolve {
namespace {

using testing::HasSubstr;

Result<EvolveOptions> read(const std::string& toml, const std::vector<std::string>& set = {}) {
  auto config = Config::parse(toml, "test.toml", set);
  if (!config) return tl::unexpected(config.error());
  return evolve_options(*config);
}

TEST(Options, DefaultsAndOverrides) {
  const auto o = read("seed = 3\n[train]\nlr = 1e-5\n[coder]\nbeta = 0.0\n", {"train.lr=0", "loop.rounds=4"});
  ASSERT_TRUE(o) << o.error().message;
  EXPECT_EQ(o->seed, 3u);
  EXPECT_EQ(o->train.lr, 0.0);
  EXPECT_EQ(o->rounds, 4);
  EXPECT_EQ(o->coder.timing, "off") << "without a bonus nobody needs times";
  EXPECT_EQ(o->evaluation.after_seed, o->evaluation.seed);
  EXPECT_EQ(o->proposer.duplicate_reward, o->proposer.frontier.rho);
}

TEST(Options, ErrorsNameKeyAndRemedy) {
  const auto unknown = read("[train]\nlearning_rate = 1e-5\n[coder]\ngruop = 4\n");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, "config");
  EXPECT_THAT(unknown.error().message, HasSubstr("coder.group"));
  const auto estimator = read("[train]\nestimator = \"ppo\"\n");
  ASSERT_FALSE(estimator);
  EXPECT_THAT(estimator.error().message, HasSubstr("rloo"));
  const auto range = read("[proposer]\nrho = 0.5\n");
  ASSERT_FALSE(range);
  EXPECT_THAT(range.error().message, HasSubstr("proposer.rho"));
  EXPECT_FALSE(read("[coder]\nbeta = 0.1\ntiming = \"off\"\n"));
}

TEST(Options, ResolvedConfigReadsBackTheSame) {
  auto config = Config::parse("seed = 3\n[train]\nlr = 1e-5\n", "test.toml");
  ASSERT_TRUE(config);
  ASSERT_TRUE(evolve_options(*config));
  const std::string resolved = config->resolved();
  auto again = Config::parse(resolved, "resolved.toml");
  ASSERT_TRUE(again) << again.error().message;
  const auto o = evolve_options(*again);
  ASSERT_TRUE(o) << o.error().message;
  EXPECT_EQ(o->train.lr, 1e-5);
  EXPECT_EQ(again->resolved(), resolved);
}

}  // namespace
}  // namespace kz::evolve
