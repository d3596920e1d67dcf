#include <gtest/gtest.h>

#include "base/config.h"

namespace kz {
namespace {

TEST(Config, ReadsValuesAndDefaults) {
  auto config = Config::parse("seed = 3\n[train]\nlr = 1e-3\nnames = ['a', 'b']\n", "c.toml").value();
  EXPECT_EQ(config.get("seed", 0), 3);
  EXPECT_DOUBLE_EQ(config.get("train.lr", 0.0), 1e-3);
  EXPECT_EQ(config.get("train.names", std::vector<std::string>{}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config.get("name", "nano"), "nano");
  EXPECT_TRUE(config.get("fast", true));
  EXPECT_TRUE(config.finish());
}

TEST(Config, UnknownKeyNamesTheNearest) {
  auto config = Config::parse("[train]\nlrr = 1\n", "c.toml").value();
  config.get("train.lr", 0.1);
  EXPECT_EQ(config.finish().error().message, "c.toml: unknown key train.lrr; did you mean train.lr?");
}

TEST(Config, WrongTypeIsReported) {
  auto config = Config::parse("seed = 'x'\n", "c.toml").value();
  config.get("seed", 1);
  EXPECT_EQ(config.finish().error().message, "c.toml: seed: expected a whole number, not 'x'");
}

TEST(Config, SyntaxErrorHasItsLine) {
  EXPECT_EQ(Config::parse("a = 1\nb = = 2\n", "c.toml").error().message.substr(0, 9), "c.toml:2:");
}

TEST(Config, OverridesWin) {
  auto config = Config::parse("[train]\nlr = 1.0\n", "c.toml", {"train.lr=0", "name=plain words", "on=true"}).value();
  EXPECT_DOUBLE_EQ(config.get("train.lr", 5.0), 0.0);
  EXPECT_EQ(config.get("name", ""), "plain words");
  EXPECT_TRUE(config.get("on", false));
  EXPECT_FALSE(Config::parse("", "c.toml", {"novalue"}));
}

TEST(Config, ResolvedReadsBackTheSame) {
  auto config = Config::parse("z = 1\n[a]\nx = 2.5\ny = 'q\"uote'\nl = [1.0, 2.0]\n", "c.toml").value();
  config.get("z", 0), config.get("a.x", 0.0), config.get("a.y", ""), config.get("a.l", std::vector<double>{});
  config.get("a.b.c", 7);
  auto again = Config::parse(config.resolved(), "resolved").value();
  EXPECT_EQ(again.get("z", 0), 1);
  EXPECT_DOUBLE_EQ(again.get("a.x", 0.0), 2.5);
  EXPECT_EQ(again.get("a.y", ""), "q\"uote");
  EXPECT_EQ(again.get("a.l", std::vector<double>{}), (std::vector<double>{1.0, 2.0}));
  EXPECT_EQ(again.get("a.b.c", 0), 7);
  EXPECT_TRUE(again.finish());
}

}  // namespace
}  // namespace kz
