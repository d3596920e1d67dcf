#include "evolve/run.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

#include "evolve/summary.h"
#include "evolve/toy_world.h"

namespace kz::evolve {
namespace {

EvolveOptions options() {
  EvolveOptions o;
  o.seed = 11;
  o.rounds = 2;
  o.proposer_steps = 3;
  o.coder_steps = 6;
  o.per_sequence = 3;
  o.coder.reward.beta = 0;
  o.coder.timing = "off";
  o.proposer.lists = 6;
  o.coder.prompts = 8;
  return o;
}

// One run in the toy world, from wherever its folder stands.
struct World {
  explicit World(const EvolveOptions& o, double lr = 0.2) : options(o), coder(false, lr), proposer(true, lr) {
    for (int level = 0; level < 8; ++level) {
      tasks.push_back({"t" + std::to_string(level), "toy>t" + std::to_string(level),
                       "class Model: level " + std::to_string(level)});
    }
  }
  // One more task, as of a folder: the gate finds its sequence.
  void add_folder_task() { tasks.push_back({"folder", "", "class Model: level 3 size 17"}); }
  Status go(const fs::path& folder, const Store* replay = nullptr, const Reporter& reporter = {}) {
    auto run =
        fs::exists(folder / "run.db") ? RunFolder::open(folder) : RunFolder::create(folder, options, "seed = 11\n");
    if (!run) return tl::unexpected(run.error());
    RunParts parts;
    parts.coder = &coder;
    parts.proposer = &proposer;
    parts.judge = &judge;
    parts.replay = replay;
    parts.tasks = tasks;
    for (int i = 0; i < 10; ++i) parts.lists.push_back({"toy.a" + std::to_string(i), "toy.b"});
    return run_evolution(*run, options, parts, reporter);
  }
  EvolveOptions options;
  toy::ToyLearner coder, proposer;
  toy::ToyJudge judge;
  std::vector<EvaluationTask> tasks;
};

// Everything in the store that must repeat: all but times.
std::string content(const fs::path& folder) {
  SQLite::Database db((folder / "run.db").string());
  std::string out;
  const char* queries[] = {
      "SELECT id, hash, status, mean, step, seen_step, times_seen FROM modules ORDER BY id",
      "SELECT step, role, grp, member, module, source, outcome, right, speedup, reward, advantage, logprob_sum FROM "
      "rollouts ORDER BY id",
      "SELECT step, name, value FROM metrics WHERE name NOT LIKE 'time/%' ORDER BY step, name",
      "SELECT * FROM module_rounds ORDER BY step, module",
      "SELECT evaluation, task, kind, member, source, right FROM evaluation_samples ORDER BY 1, 2, 3, 4",
      "SELECT round, name, value FROM rounds WHERE name != 'seconds' ORDER BY 1, 2",
  };
  for (const char* sql : queries) {
    SQLite::Statement q(db, sql);
    while (q.executeStep()) {
      for (int i = 0; i < q.getColumnCount(); ++i) out += std::string(q.getColumn(i).getText("NULL")) + "|";
      out += "\n";
    }
    out += "--\n";
  }
  return out;
}

class RunTest : public testing::Test {
 protected:
  TempDir dir_ = *TempDir::make(toy::scratch(), "kevolve-run-");
};

TEST_F(RunTest, BothRolesLearn) {
  EvolveOptions o = options();
  o.rounds = 3;
  o.coder_steps = 12;
  World world(o);
  world.add_folder_task();
  const auto start = world.coder.logits();
  const auto done = world.go(dir_.path() / "run");
  ASSERT_TRUE(done) << done.error().message;
  Store store = *Store::open(dir_.path() / "run" / "run.db");
  const Json s = *summary_json(store, 1.0, 2.0);
  EXPECT_GT(s["coder_accuracy_after"].get<double>(), s["coder_accuracy_before"].get<double>() + 0.1);
  EXPECT_GT(s["gain_ci95"][0].get<double>(), 0.0);
  EXPECT_EQ(s["rounds"], 3);
  EXPECT_EQ(s["heldout_tasks"], 9);
  EXPECT_GT(s["cache_hits"].get<int>(), 0);
  EXPECT_GT(s["proposer_modules"].get<int>(), 20);
  EXPECT_LT(s["proposer_valid"].get<double>(), 1.0);
  SQLite::Database db((dir_.path() / "run" / "run.db").string());
  EXPECT_GT(db.execAndGet("SELECT COUNT(*) FROM rollouts WHERE reason = 'held_out'").getInt(), 0);
  EXPECT_EQ(
      db.execAndGet("SELECT COUNT(*) FROM rollouts r JOIN steps s ON r.step = s.step WHERE reason = 'held_out' AND "
                    "s.role = 'proposer' AND r.reward IS NOT NULL")
          .getInt(),
      0)
      << "a module kept for evaluation is nobody's fault";
  // The Proposer learnt that level 9 is invalid, the Coder is better at some level of the frontier.
  EXPECT_LT(world.proposer.logits()[9], -0.2);
  double best = 0;
  for (int i = 0; i < toy::kLevels; ++i) best = std::max(best, world.coder.logits()[i] - start[i]);
  EXPECT_GT(best, 1.0);
  EXPECT_EQ(db.execAndGet("SELECT COUNT(*) FROM modules WHERE source LIKE '%level 3 size 17'").getInt(), 0)
      << "a task of the evaluation was admitted";
  const char* keys[] = {"rounds",
                        "verdicts",
                        "cache_hits",
                        "verdicts_unscored",
                        "verdicts_ambiguous",
                        "groups_gated_on",
                        "groups_with_bonus",
                        "proposer_modules",
                        "proposer_valid",
                        "coder_accuracy_before",
                        "coder_accuracy_after",
                        "gain_ci95",
                        "greedy_before",
                        "greedy_after",
                        "pass8_before",
                        "pass8_after",
                        "heldout_tasks",
                        "wall_s",
                        "peak_rss_mb"};
  for (const char* key : keys) EXPECT_TRUE(s.contains(key)) << key;
  EXPECT_EQ(s.size(), std::size(keys));
}

TEST_F(RunTest, NoLearningRateNoGain) {
  World world(options(), /*lr=*/0);
  ASSERT_TRUE(world.go(dir_.path() / "run"));
  Store store = *Store::open(dir_.path() / "run" / "run.db");
  const Json s = *summary_json(store, 1, 1);
  EXPECT_EQ(s["coder_accuracy_after"], s["coder_accuracy_before"]) << "same weights, same seeds";
}

TEST_F(RunTest, FrozenPartner) {
  World world(options());
  Reporter reporter;
  auto coder = world.coder.logits();
  auto proposer = world.proposer.logits();
  reporter.step = [&](const Place& place, const StepRecord& record, double) {
    const bool held =
        place.role == Role::kProposer ? world.coder.logits() == coder : world.proposer.logits() == proposer;
    EXPECT_TRUE(held) << "the frozen partner moved in step " << record.step;
    coder = world.coder.logits();
    proposer = world.proposer.logits();
  };
  ASSERT_TRUE(world.go(dir_.path() / "run", nullptr, reporter));
}

TEST_F(RunTest, SameSeedSameRunOtherSeedAnother) {
  ASSERT_TRUE(World(options()).go(dir_.path() / "a"));
  ASSERT_TRUE(World(options()).go(dir_.path() / "b"));
  EXPECT_EQ(content(dir_.path() / "a"), content(dir_.path() / "b"));
  EvolveOptions other = options();
  other.seed = 12;
  ASSERT_TRUE(World(other).go(dir_.path() / "c"));
  EXPECT_NE(content(dir_.path() / "a"), content(dir_.path() / "c"));
}

// kill -9 at many points, each time resumed by a new process: the same numbers as a run that nobody disturbed, and no
// verdict asked for twice. Points are counted in events, so that a busy machine does not change what is tested.
TEST_F(RunTest, KilledAndResumedIsUndisturbed) {
  World calm(options());
  ASSERT_TRUE(calm.go(dir_.path() / "calm"));
  const std::string expected = content(dir_.path() / "calm");
  for (int round = 0; round < 3; ++round) {
    const fs::path folder = dir_.path() / ("killed" + std::to_string(round));
    int kills = 0;
    for (bool finished = false; !finished && kills < 200; ++kills) {
      const pid_t child = ::fork();
      if (child == 0) {
        World world(options());
        int left = 1 + (kills * 61 + round * 17) % 211;
        const auto event = [&left] {
          if (--left == 0) ::kill(::getpid(), SIGKILL);
        };
        world.judge.on_event = world.coder.on_save = world.proposer.on_save = event;
        const auto done = world.go(folder);
        if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
        ::_exit(done ? 0 : 1);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      finished = WIFEXITED(status);
      ASSERT_TRUE(!finished || WEXITSTATUS(status) == 0);
    }
    EXPECT_GE(kills, 5) << "the run was over too soon to say anything";
    EXPECT_TRUE(content(folder) == expected) << "the killed run differs from the undisturbed one";
    SQLite::Database db((folder / "run.db").string());
    const char* doubles = "SELECT COUNT(*) - COUNT(DISTINCT module || candidate || backend) FROM verdicts";
    EXPECT_EQ(db.execAndGet(doubles).getInt(), 0);
    EXPECT_LE(std::distance(fs::directory_iterator(folder / "checkpoints"), fs::directory_iterator()), 2);
  }
}

// With a speed bonus the measured times decide: only a replay repeats a run, and it needs no judge.
TEST_F(RunTest, ReplayRepeatsARunWithMeasuredTimes) {
  EvolveOptions o = options();
  o.coder.reward.beta = 0.1;
  o.coder.timing = "gated";
  World first(o), second(o);
  first.judge.noise = second.judge.noise = 0.2;
  ASSERT_TRUE(first.go(dir_.path() / "a"));
  ASSERT_TRUE(second.go(dir_.path() / "b"));
  EXPECT_NE(content(dir_.path() / "a"), content(dir_.path() / "b")) << "noise had no effect, so the test shows nothing";
  Store store = *Store::open_read_only(dir_.path() / "a" / "run.db");
  World replayed(o);
  const auto done = replayed.go(dir_.path() / "c", &store);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(replayed.judge.asked + replayed.judge.modules_asked, 0);
  EXPECT_EQ(content(dir_.path() / "a"), content(dir_.path() / "c"));
  EXPECT_GT((*summary_json(store, 1, 1))["groups_with_bonus"].get<int>(), 0);
}

TEST_F(RunTest, UnscoredVerdictsTeachNothingAndStopNothing) {
  World world(options());
  world.judge.unscored_every = 5;
  ASSERT_TRUE(world.go(dir_.path() / "run"));
  SQLite::Database db((dir_.path() / "run" / "run.db").string());
  EXPECT_GT(db.execAndGet("SELECT COUNT(*) FROM rollouts WHERE scored = 0").getInt(), 0);
  EXPECT_EQ(db.execAndGet("SELECT COUNT(*) FROM rollouts WHERE scored = 0 AND (advantage != 0 OR reward IS NOT NULL)")
                .getInt(),
            0);
}

TEST_F(RunTest, ImitationControlTrainsOnRightSamplesOnly) {
  EvolveOptions o = options();
  o.train.estimator = "sft_right";
  World world(o);
  ASSERT_TRUE(world.go(dir_.path() / "run"));
  SQLite::Database db((dir_.path() / "run" / "run.db").string());
  EXPECT_EQ(db.execAndGet("SELECT COUNT(*) FROM rollouts r JOIN steps s ON r.step = s.step WHERE s.role = 'coder' AND "
                          "r.role = 'coder' AND (advantage != right)")
                .getInt(),
            0);
}

TEST_F(RunTest, TwoProcessesDoNotShareARun) {
  auto first = RunFolder::create(dir_.path() / "run", options(), "");
  ASSERT_TRUE(first);
  const auto second = RunFolder::open(dir_.path() / "run");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, "busy");
  const auto again = RunFolder::create(dir_.path() / "run", options(), "");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, "exists");
}

}  // namespace
}  // namespace kz::evolve
