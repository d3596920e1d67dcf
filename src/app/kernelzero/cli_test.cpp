// What a user gets wrong: one line that says where and what to do, and the exit code of keck.md, part 8.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "app/kernelzero/run_cli.h"
#include "base/json.h"
#include "base/layout.h"
#include "evolve/store.h"

namespace kz::app {
namespace {

using testing::HasSubstr;

class CliTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(write_file_atomic(dir_.path() / name, text));
    return (dir_.path() / name).string();
  }
  // Exit code 2 and exactly one line that holds each of the words.
  static void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
    const Ran ran = run_cli(arguments);
    EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    for (const auto& word : words) EXPECT_THAT(ran.err, HasSubstr(word));
  }
  TempDir dir_ = *TempDir::make(fs::temp_directory_path(), "kevolve-cli-");
  std::string runs_ = (dir_.path() / "runs").string();
};

TEST_F(CliTest, ConfigErrors) {
  expect_refused({"evolve", "no-such.toml"}, {"no-such.toml"});
  expect_refused({"evolve"}, {"config"});
  expect_refused({"evolve", "configs/tiny.toml", "--set", "train.lrr=1"}, {"train.lrr", "train.lr"});
  expect_refused({"evolve", "configs/tiny.toml", "--set", "train.lr=fast"}, {"train.lr"});
  expect_refused({"evolve", "configs/tiny.toml", "--set", "lists.families=[\"sigmoidd\"]"}, {"sigmoidd"});
  expect_refused({"evolve", file("bad.toml", "[train\nlr = 1")}, {"bad.toml"});
  expect_refused({"sft", "configs/nano.toml", "--set", "model.hiden=64"}, {"model.hiden", "model.hidden"});
  expect_refused({"no-such-command"}, {"kernelzero --help"});
}

TEST_F(CliTest, ModelErrors) {
  expect_refused({"evolve", "configs/tiny.toml", "--runs", runs_, "--set", "model.start=" + dir_.path().string()},
                 {dir_.path().string()});
  const std::string module = file("m.py", "class Model: pass\n");
  expect_refused({"code", module, "--model", "no/such/model"}, {"no/such/model"});
  expect_refused({"code", module, "--model", "http://127.0.0.1:1"}, {"127.0.0.1:1"});
  expect_refused({"code", "no-such.py", "--model", "http://127.0.0.1:1"}, {"no-such.py"});
  expect_refused({"code", file("latin.py", "# \xe9\n"), "--model", "http://127.0.0.1:1"}, {"latin.py", "UTF-8"});
  expect_refused({"eval", "--tasks", dir_.path() / "none", "--model", "http://127.0.0.1:1"}, {"none"});
  expect_refused({"propose", "--apis", "torch.rellu", "--model", "http://127.0.0.1:1"}, {"torch.rellu", "torch.relu"});
  expect_refused({"model", "info", dir_.path().string()}, {dir_.path().string()});
}

TEST_F(CliTest, RunFolders) {
  expect_refused({"evolve", "--resume", (dir_.path() / "none").string()}, {"none"});
  expect_refused({"report", dir_.path().string()}, {"run.db"});
  const fs::path run = dir_.path() / "runs" / "old";
  ASSERT_TRUE(make_dirs(run));
  {
    auto store = evolve::Store::create(run / "run.db", {});
    ASSERT_TRUE(store->set_meta("schema_version", "0"));
  }
  file("runs/old/config.toml", "name = \"old\"\n[loop]\nrounds = 1\n");
  expect_refused({"evolve", "--resume", run.string()}, {"another version", "run.db"});
  expect_refused({"report", run.string()}, {"another version"});
  expect_refused({"evolve", "configs/tiny.toml", "--runs", runs_, "--set", "name=old"}, {"--resume"});
}

TEST_F(CliTest, AColdStartInTwoStages) {
  const std::string out = (dir_.path() / "model").string();
  std::vector<std::string> command = {"sft", "configs/nano.toml", "--json"};
  for (const std::string& set : {"out=" + out, std::string("model.hidden=64"), std::string("model.layers=1"),
                                 std::string("data.held_out_rows=4"), std::string("train.max_steps=2"),
                                 std::string("train.eval_every=1"), std::string("train.batch_tokens=2048"),
                                 std::string("second.batch_tokens=2048"), std::string("second.max_rows=256")})
    command.insert(command.end(), {"--set", set});
  const Ran ran = run_cli(command);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json report = Json::parse(ran.out);
  EXPECT_EQ(report.at("stopped"), "steps");
  EXPECT_EQ(report.at("second").at("stopped"), "rows");
  // The second stage went on from the first.
  EXPECT_LT(report.at("second").at("held_out").get<double>(), report.at("held_out").get<double>());
  EXPECT_EQ(run_cli({"model", "info", out}).exit_code, 0);
  expect_refused({"sft", "configs/nano.toml", "--set", "second.lengths=3"}, {"second.lengths"});
}

TEST_F(CliTest, ApisAsData) {
  const Ran list = run_cli({"apis", "list", "--json"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_GE(Json::parse(list.out).size(), 150u);
  const std::vector<std::string> sample = {"apis", "sample", "--lists", "7", "--seed", "3", "--json"};
  const Ran a = run_cli(sample), b = run_cli(sample);
  const Json lists = Json::parse(a.out);
  EXPECT_EQ(lists.size(), 7u);
  for (const auto& one : lists) EXPECT_TRUE(one.size() == 2 || one.size() == 3) << one;
  EXPECT_EQ(a.out, b.out);
  expect_refused({"apis", "sample", "--apis", "torch.rellu,torch.sin"}, {"torch.rellu"});
}

}  // namespace
}  // namespace kz::app
