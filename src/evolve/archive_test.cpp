#include "evolve/archive.h"

#include <gtest/gtest.h>

#include "corpus/split.h"

namespace kz::evolve {
namespace {

keck::ModuleReport report(const std::string& hash, const std::vector<std::string>& operators,
                          const std::string& source = "class Model") {
  keck::ModuleReport r;
  r.outcome = keck::Outcome::kPass;
  r.canonical_hash = hash;
  r.canonical_source = source;
  r.operators = operators;
  return r;
}

// Some sequence of two operators on the wanted side of the split.
std::vector<std::string> operators(bool held_out, int skip = 0) {
  for (int i = 0;; ++i) {
    const std::vector<std::string> ops = {"torch.a" + std::to_string(i), "torch.b"};
    if (corpus::is_held_out(corpus::sequence_of(ops)) == held_out && skip-- == 0) return ops;
  }
}

TEST(Archive, RefusesNearDuplicatesAndHeldOutSequences) {
  Archive archive(/*per_sequence=*/2);
  const auto open = operators(false);
  EXPECT_EQ(archive.admit(report("h1", open), 0).module, 1);
  EXPECT_EQ(archive.admit(report("h1", operators(false, 1)), 0).reason, "duplicate");
  EXPECT_EQ(archive.admit(report("h2", open), 1).module, 2);
  EXPECT_EQ(archive.admit(report("h3", open), 1).reason, "duplicate_sequence");
  EXPECT_EQ(archive.admit(report("h4", operators(true)), 1).reason, "held_out");
  EXPECT_EQ(archive.admit(report("h5", operators(false, 2), "x = '<|answer|>'"), 1).reason, "forbidden_text");
  const auto asked = operators(false, 3);
  archive.exclude({corpus::sequence_of(asked), ""}, {"task hash", ""});
  EXPECT_EQ(archive.admit(report("h6", asked), 1).reason, "held_out");
  EXPECT_EQ(archive.admit(report("task hash", operators(false, 4)), 1).reason, "held_out");
  EXPECT_EQ(archive.modules().size(), 2u);
}

TEST(Archive, RestoredArchiveRefusesTheSame) {
  Archive first(1);
  const auto a = operators(false);
  ASSERT_EQ(first.admit(report("h1", a), 0).module, 1);
  Archive second(1);
  second.restore(first.modules());
  EXPECT_EQ(second.admit(report("h1", operators(false, 1)), 1).reason, "duplicate");
  EXPECT_EQ(second.admit(report("h2", a), 1).reason, "duplicate_sequence");
  EXPECT_EQ(second.admit(report("h3", operators(false, 1)), 1).module, 2);
}

TEST(Archive, StatusFollowsTheLastMean) {
  Archive archive(100);
  const auto a = operators(false);
  archive.admit(report("h1", a), 0);
  EXPECT_EQ(archive.at(1).status, ModuleStatus::kFresh);
  archive.seen({1, 8, 8, 0}, 3, 0.75);
  EXPECT_EQ(archive.at(1).status, ModuleStatus::kHard);
  archive.seen({1, 8, 7, 3}, 9, 0.75);
  EXPECT_EQ(archive.at(1).status, ModuleStatus::kFrontier);
  EXPECT_DOUBLE_EQ(*archive.at(1).mean, 3.0 / 7);
  archive.seen({1, 8, 5, 5}, 10, 0.75);
  EXPECT_EQ(archive.at(1).status, ModuleStatus::kFrontier) << "5 of 8 scored say nothing";
  EXPECT_EQ(archive.at(1).times_seen, 3);
  archive.seen({1, 8, 8, 8}, 11, 0.75);
  EXPECT_EQ(archive.at(1).status, ModuleStatus::kSolved);
  ASSERT_EQ(archive.take_changed().size(), 1u);
  EXPECT_TRUE(archive.take_changed().empty());
}

}  // namespace
}  // namespace kz::evolve
