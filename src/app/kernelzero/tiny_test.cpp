// The smallest whole run, with real models and a real Keck: killed and resumed, and replayed.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include "app/kernelzero/run_cli.h"
#include "app/kernelzero/run_numbers.h"
#include "base/clock.h"
#include "base/random.h"

namespace kz::app {
namespace {

class TinyTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs::exists("models/nano/model.safetensors"))
        << "models/nano is missing: `kernelzero sft configs/nano.toml` makes it";
  }
  std::string runs(const std::string& name) const { return (dir_.path() / name).string(); }
  fs::path run_of(const std::string& name) const { return dir_.path() / name / "tiny"; }
  std::vector<std::string> start(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> out = {"evolve", "configs/tiny.toml", "--runs", runs(name)};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  // Kills `kills` times at random instants within `span` seconds, resumes each time, and lets the last one finish.
  // Returns how many of the kills met a run that was still going.
  int kill_and_resume(const std::string& name, const std::vector<std::string>& more, int kills, double span,
                      uint64_t seed) const {
    Rng rng(seed);
    int met = 0;
    for (int k = 0; k <= kills; ++k) {
      const bool begun = fs::exists(run_of(name) / "run.db");
      const auto arguments =
          begun ? std::vector<std::string>{"evolve", "--resume", run_of(name).string()} : start(name, more);
      std::optional<double> after;
      if (k < kills) after = 0.2 + rng.uniform() * span;
      const Ran ran = run_cli(arguments, after);
      met += ran.exit_code == 128 + 9;
      EXPECT_TRUE(ran.exit_code == 0 || (after && ran.exit_code == 128 + 9)) << ran.exit_code << ran.err;
    }
    return met;
  }

  TempDir dir_ = *TempDir::make(fs::temp_directory_path(), "kevolve-tiny-");
};

TEST_F(TinyTest, KilledOnceAndReplayed) {
  // With a bonus the times decide, so that only a replay is equal.
  const std::vector<std::string> small = {"--set", "evaluation.count=4", "--set", "coder.beta=0.1"};
  kill_and_resume("first", small, 1, 8, 7);
  auto again = start("replayed", small);
  again.insert(again.end(), {"--replay", run_of("first").string()});
  const Ran ran = run_cli(again);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(run_numbers(run_of("first")), run_numbers(run_of("replayed")));
  SQLite::Database db((run_of("first") / "run.db").string());
  EXPECT_GT(db.execAndGet("SELECT COUNT(*) FROM verdicts WHERE right").getInt(), 0)
      << "nothing was right: no test of anything";
  const Ran report = run_cli({"report", run_of("first").string()});
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_GT(read_file(run_of("first") / "report.html").value_or("").size(), 10000u);
}

class TinySlowTest : public TinyTest {};

TEST_F(TinySlowTest, TenKills) {
  const Stopwatch watch;
  const Ran calm = run_cli(start("calm"));
  ASSERT_EQ(calm.exit_code, 0) << calm.err;
  // Short enough that ten such spans, each with a start of Keck, do not finish the run.
  EXPECT_GE(kill_and_resume("killed", {}, 10, 0.6 * watch.seconds(), 11), 8);
  EXPECT_EQ(run_numbers(run_of("calm")), run_numbers(run_of("killed")));
}

}  // namespace
}  // namespace kz::app
