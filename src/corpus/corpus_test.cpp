// Families, modules, splits and tasks: what must hold of every row that is ever drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "apis/catalogue.h"
#include "base/text.h"
#include "corpus/chain.h"
#include "corpus/row.h"
#include "corpus/split.h"

namespace kz::corpus {
namespace {

using ::testing::HasSubstr;

apis::Catalogue catalogue() { return std::move(*apis::Catalogue::load("data/apis/catalogue.json")); }

TEST(Families, AreAtLeastThirtyWithBothLowerings) {
  EXPECT_GE(families().size(), 30u);
  std::set<std::string> names;
  int two_styles = 0;
  for (const Family& family : families()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    ASSERT_FALSE(family.cpp.empty() || family.triton.empty() || family.spellings.empty()) << family.name;
    EXPECT_EQ(family.cpp.front().style, "main") << family.name;
    EXPECT_NE(family.reference, nullptr) << family.name;
    two_styles += family.cpp.size() > 1;
  }
  EXPECT_GE(two_styles, 3);
}

TEST(Families, SpellingsResolveToTheirApi) {
  const apis::Catalogue known = catalogue();
  for (const Family& family : families()) {
    EXPECT_EQ(known.canonical(family.api), family.api) << family.name;
    for (const Spelling& spelling : family.spellings) {
      const bool method = spelling.form.starts_with("x.");
      const std::string full = method ? "torch.Tensor." + spelling.form.substr(2) : spelling.form;
      EXPECT_EQ(known.canonical(full), family.api) << family.name << ": " << spelling.form;
    }
  }
}

TEST(Rows, SameSeedSameRows) {
  for (const std::string backend : {"cpp", "triton"}) {
    Rng a(7), b(7);
    for (int i = 0; i < 50; ++i) {
      const auto left = make_row(a, {}, backend), right = make_row(b, {}, backend);
      ASSERT_TRUE(left && right);
      EXPECT_EQ(to_json(*left), to_json(*right));
    }
  }
}

TEST(Rows, ObeyTheirOptions) {
  Rng rng(1);
  ChainOptions options;
  options.families = {"relu", "sigmoid", "mul_scalar", "softmax", "sum"};
  options.lengths = {0, 0.5, 0.5};
  options.second_style = 0;
  options.fast_math = 0;
  for (int i = 0; i < 200; ++i) {
    const auto row = make_row(rng, options, "cpp");
    ASSERT_TRUE(row) << row.error().message;
    EXPECT_TRUE(row->families.size() == 2 || row->families.size() == 3);
    for (const std::string& name : row->families)
      EXPECT_NE(std::find(options.families.begin(), options.families.end(), name), options.families.end());
    EXPECT_EQ(row->style, "main");
    EXPECT_EQ(row->split, "open");
    EXPECT_GE(bucket_of(row->sequence), 2);
  }
}

TEST(Rows, EveryFamilyCanStandAloneAndInAChain) {
  Rng rng(3);
  for (const Family& family : families()) {
    for (const std::vector<double>& lengths : {std::vector<double>{1}, std::vector<double>{0, 0.5, 0.5}}) {
      ChainOptions options;
      options.lengths = lengths;
      const auto row = make_row(rng, options, "triton", family.name);
      ASSERT_TRUE(row) << family.name << ": " << row.error().message;
      EXPECT_EQ(row->family, family.name);
      EXPECT_NE(std::find(row->families.begin(), row->families.end(), family.name), row->families.end());
    }
  }
}

TEST(Rows, SequenceFollowsTheModulesText) {
  Rng rng(5);
  ChainOptions options;
  options.lengths = {0, 0, 0, 1};
  const auto task = make_task(rng, options);
  ASSERT_TRUE(task);
  const auto names = kz::split(task->sequence, '>');
  ASSERT_EQ(names.size(), 4u);
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], find_family(task->families[i])->api);
  std::set<std::string> unique(names.begin(), names.end());
  EXPECT_EQ(task->apis, std::vector<std::string>(unique.begin(), unique.end()));
}

TEST(Rows, SurviveJson) {
  Rng rng(2);
  const auto row = make_row(rng, {}, "cpp");
  ASSERT_TRUE(row);
  const auto again = row_from_json(to_json(*row));
  ASSERT_TRUE(again);
  EXPECT_EQ(to_json(*again), to_json(*row));
  EXPECT_FALSE(row_from_json(Json{{"id", 3}}));
}

TEST(Rows, ImpossibleOptionsAreErrors) {
  Rng rng(1);
  auto message = [&](ChainOptions options, const std::string& backend = "cpp") {
    const auto row = make_row(rng, options, backend);
    return row ? std::string() : row.error().message;
  };
  EXPECT_THAT(message({.families = {"rellu"}}), HasSubstr("did you mean 'relu'"));
  EXPECT_THAT(message({.families = {"relu"}, .lengths = {0, 1}}), HasSubstr("1 families"));
  EXPECT_THAT(message({.lengths = {0, 0}}), HasSubstr("positive"));
  EXPECT_THAT(message({.lengths = std::vector<double>(9, 1)}), HasSubstr("at most 8"));
  EXPECT_THAT(message({.buckets = {10}}), HasSubstr("0 to 9"));
  EXPECT_THAT(message({}, "cuda"), HasSubstr("cuda"));
  // Two reductions can't follow each other, so no chain of two fits; it is said, not looped for ever.
  EXPECT_THAT(message({.families = {"sum", "mean"}, .lengths = {0, 1}}), HasSubstr("no sound chain"));
}

TEST(Chains, ReductionsEndThemAndRootsNeedPositiveInputs) {
  const Family *relu = find_family("relu"), *sum = find_family("sum"), *root = find_family("sqrt"),
               *tanh = find_family("tanh"), *linear = find_family("linear"), *matmul = find_family("matmul");
  EXPECT_TRUE(fits({relu, sum}));
  EXPECT_FALSE(fits({sum, relu}));
  EXPECT_TRUE(fits({relu, root}));
  EXPECT_TRUE(fits({root}));
  EXPECT_FALSE(fits({tanh, root}));
  EXPECT_FALSE(fits({relu, tanh, relu}));
  EXPECT_FALSE(fits({linear, matmul}));
  EXPECT_FALSE(fits({}));
}

TEST(Chains, IdleConstantAndExplodingOnesAreUnsound) {
  Rng rng(4);
  auto sound = [&](const std::vector<std::string>& names) {
    std::vector<const Family*> list;
    for (const std::string& name : names) list.push_back(find_family(name));
    int yes = 0;
    for (int i = 0; i < 20; ++i) yes += is_sound(rng, draw_chain(rng, list, 0));
    return yes;
  };
  EXPECT_EQ(sound({"softmax", "sum"}), 0) << "always one";
  EXPECT_EQ(sound({"softmax", "relu"}), 0) << "relu changes nothing";
  EXPECT_EQ(sound({"flip", "sum"}), 0) << "flip changes nothing";
  EXPECT_EQ(sound({"exp", "exp"}), 0) << "fits() forbids it, and it explodes";
  EXPECT_EQ(sound({"layer_norm", "mean"}), 0) << "always zero";
  EXPECT_EQ(sound({"sigmoid", "mul"}), 20);
}

TEST(Split, TwoBucketsOfCompositionsAreHeldOut) {
  EXPECT_EQ(sequence_of({"torch.relu", "torch.sum"}), "torch.relu>torch.sum");
  EXPECT_FALSE(is_held_out("torch.relu")) << "one operator is always open";
  int held_out = 0, all = 0;
  for (const Family& a : families())
    for (const Family& b : families()) {
      const std::string sequence = sequence_of({a.api, b.api});
      EXPECT_EQ(is_held_out(sequence), bucket_of(sequence) < 2);
      EXPECT_EQ(split_of(sequence), is_held_out(sequence) ? "heldout" : "open");
      held_out += is_held_out(sequence);
      ++all;
    }
  EXPECT_NEAR(static_cast<double>(held_out) / all, 0.2, 0.03);
}

TEST(HeldOut, DifferentSequencesOfTheHeldOutBuckets) {
  const auto tasks = make_heldout(300, 1, {.lengths = {0, 0.2, 0.45, 0.35}});
  ASSERT_TRUE(tasks) << tasks.error().message;
  std::set<std::string> sequences, ids;
  for (const Task& task : *tasks) {
    EXPECT_EQ(task.split, "heldout");
    EXPECT_GE(task.families.size(), 2u);
    sequences.insert(task.sequence);
    ids.insert(task.id);
  }
  EXPECT_EQ(tasks->size(), 300u);
  EXPECT_EQ(ids.size(), 300u);
  EXPECT_GE(sequences.size(), 280u);
  const auto again = make_heldout(300, 1, {.lengths = {0, 0.2, 0.45, 0.35}});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->back().module, tasks->back().module);
}

TEST(HeldOut, RepeatsSequencesOnlyWhenTheyRunOut) {
  ChainOptions options{.families = {"relu", "sigmoid", "tanh", "mul_scalar"}, .lengths = {0, 1}};
  const auto tasks = make_heldout(40, 2, options);
  ASSERT_TRUE(tasks) << tasks.error().message;
  std::set<std::string> modules;
  for (const Task& task : *tasks) modules.insert(task.module);
  EXPECT_EQ(modules.size(), 40u);
}

}  // namespace
}  // namespace kz::corpus
