#include "evolve/curriculum.h"

#include <gtest/gtest.h>

#include <set>

namespace kz::evolve {
namespace {

// n modules of each status, ids in order fresh, frontier, hard (seen at step 0), solved.
Archive archive(int n) {
  std::vector<ModuleRecord> modules;
  for (const auto status :
       {ModuleStatus::kFresh, ModuleStatus::kFrontier, ModuleStatus::kHard, ModuleStatus::kSolved}) {
    for (int i = 0; i < n; ++i) {
      ModuleRecord m;
      m.id = static_cast<int64_t>(modules.size()) + 1;
      m.hash = "h" + std::to_string(m.id);
      m.sequence = "s" + std::to_string(m.id);
      m.status = status;
      m.seen_step = status == ModuleStatus::kFresh ? -1 : 0;
      m.times_seen = status == ModuleStatus::kFresh ? 0 : 1;
      modules.push_back(m);
    }
  }
  Archive a(1);
  a.restore(modules);
  return a;
}

TEST(Curriculum, SharesOfAStep) {
  const Archive a = archive(20);
  CoderOptions options;
  options.prompts = 16;
  options.replay = 0.5;
  options.hard = 0.125;
  options.hard_after = 5;
  const Selection s = select_modules(a, options, /*step=*/10, /*seed=*/1);
  EXPECT_EQ(s.replayed.size(), 8u);
  EXPECT_EQ(s.hard.size(), 2u);
  EXPECT_EQ(s.fresh.size(), 6u);
  EXPECT_EQ(s.missing, 0);
  std::set<int64_t> all;
  for (const auto* part : {&s.replayed, &s.hard, &s.fresh}) all.insert(part->begin(), part->end());
  EXPECT_EQ(all.size(), 16u) << "a module was chosen twice";
  for (const int64_t id : all) EXPECT_NE(a.at(id).status, ModuleStatus::kSolved);
  for (const int64_t id : s.replayed) EXPECT_EQ(a.at(id).status, ModuleStatus::kFrontier);
}

TEST(Curriculum, HardOnesRestFirst) {
  const Archive a = archive(4);
  CoderOptions options;
  options.hard = 0.25;
  options.hard_after = 5;
  EXPECT_TRUE(select_modules(a, options, 4, 1).hard.empty());
  EXPECT_EQ(select_modules(a, options, 5, 1).hard.size(), 4u);
}

TEST(Curriculum, SaysWhatIsMissing) {
  const Archive a = archive(2);
  CoderOptions options;
  options.prompts = 16;
  options.replay = 0.5;
  options.hard = 0;
  const Selection s = select_modules(a, options, 10, 1);
  EXPECT_EQ(s.replayed.size(), 2u);
  EXPECT_EQ(s.fresh.size(), 2u);
  EXPECT_EQ(s.missing, 12);
  const auto more = select_more(a, s, 12, 1);
  EXPECT_EQ(more.size(), 2u) << "only the hard ones are left: the solved stay retired";
}

TEST(Curriculum, SameStepSameChoiceAndStepsDiffer) {
  const Archive a = archive(50);
  const CoderOptions options;
  EXPECT_EQ(select_modules(a, options, 7, 3).replayed, select_modules(a, options, 7, 3).replayed);
  EXPECT_NE(select_modules(a, options, 7, 3).replayed, select_modules(a, options, 8, 3).replayed);
}

}  // namespace
}  // namespace kz::evolve
