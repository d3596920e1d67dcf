// The catalogue and the sampler, on the files that are shipped and on broken ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "apis/catalogue.h"
#include "apis/sampler.h"

namespace kz::apis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Catalogue shipped() {
  auto catalogue = Catalogue::load("data/apis/catalogue.json");
  EXPECT_TRUE(catalogue) << (catalogue ? "" : catalogue.error().message);
  return std::move(*catalogue);
}

Cooccurrence shipped_counts(const Catalogue& catalogue) {
  auto counts = Cooccurrence::load("data/apis/cooccurrence.json", catalogue);
  EXPECT_TRUE(counts) << (counts ? "" : counts.error().message);
  return std::move(*counts);
}

TEST(Catalogue, HoldsAtLeast150Concepts) {
  const Catalogue catalogue = shipped();
  EXPECT_GE(catalogue.apis().size(), 150u);
  EXPECT_EQ(catalogue.list_json().size(), catalogue.apis().size());
}

TEST(Catalogue, AllSpellingsOfAConceptHaveOneName) {
  const Catalogue catalogue = shipped();
  for (const char* spelling :
       {"torch.relu", "F.relu", "nn.ReLU", "torch.nn.ReLU", "torch.nn.functional.relu", "Tensor.relu", "torch.relu_"})
    EXPECT_EQ(catalogue.canonical(spelling), "torch.relu") << spelling;
  EXPECT_EQ(catalogue.canonical("torch.softmax"), "torch.nn.functional.softmax");
  EXPECT_EQ(catalogue.canonical("nn.LayerNorm"), "torch.nn.functional.layer_norm");
  EXPECT_EQ(catalogue.canonical("torch.no_such"), std::nullopt);
}

TEST(Catalogue, UnknownNameComesWithTheNearest) {
  const auto names = shipped().resolve({"F.relu", "torch.sofmax"});
  ASSERT_FALSE(names);
  EXPECT_EQ(names.error().code, "api");
  EXPECT_THAT(names.error().message, HasSubstr("torch.softmax"));
}

TEST(Catalogue, BrokenFilesAreNamed) {
  struct Case {
    const char *text, *part;
  };
  const std::string entry = R"({"name": "torch.relu", "kind": "function", "aliases": ["F.x"]})";
  const std::string twice = R"({"version": 1, "apis": [)" + entry + ", " + entry + "]}";
  for (const Case& c : std::vector<Case>{
           {"{", "cat.json"},
           {R"({"version": 2, "apis": []})", "version must be 1"},
           {R"({"version": 1})", "\"apis\""},
           {R"({"version": 1, "apis": [{"name": "relu", "kind": "function"}]})", "apis[0]"},
           {R"({"version": 1, "apis": [{"name": "torch.relu", "kind": "thing"}]})", "'kind'"},
           {R"({"version": 1, "apis": [{"name": "torch.relu", "kind": "function", "alias": []}]})", "'alias'"},
           {twice.c_str(), "already belongs to torch.relu"}}) {
    const auto catalogue = Catalogue::parse(c.text, "cat.json");
    ASSERT_FALSE(catalogue) << c.text;
    EXPECT_THAT(catalogue.error().message, HasSubstr(c.part));
    EXPECT_THAT(catalogue.error().message, HasSubstr("cat.json"));
  }
}

TEST(Cooccurrence, CountsModulesAndSurvivesJson) {
  const Catalogue catalogue = shipped();
  Cooccurrence counts;
  counts.add_module({"torch.relu", "torch.sum", "torch.relu"});
  counts.add_module({"torch.sum", "torch.abs"});
  EXPECT_EQ(counts.modules(), 2u);
  EXPECT_EQ(counts.count("torch.sum"), 2u);
  EXPECT_EQ(counts.count("torch.relu"), 1u);
  EXPECT_EQ(counts.count("torch.sum", "torch.relu"), 1u);
  EXPECT_EQ(counts.count("torch.abs", "torch.relu"), 0u);
  const auto again = Cooccurrence::parse(counts.to_json().dump(), "c.json", catalogue);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->to_json(), counts.to_json());
}

TEST(Cooccurrence, BrokenFilesAreNamed) {
  const Catalogue catalogue = shipped();
  for (const char* text :
       {R"({"version": 1, "modules": 1, "names": ["torch.ReLU"], "singles": [1], "pairs": []})",
        R"({"version": 1, "modules": 1, "names": ["torch.relu"], "singles": [], "pairs": []})",
        R"({"version": 1, "modules": 1, "names": ["torch.relu"], "singles": [1], "pairs": [[0, 1, 1]]})",
        R"({"version": 1, "names": ["torch.relu"], "singles": [1], "pairs": []})"}) {
    const auto counts = Cooccurrence::parse(text, "c.json", catalogue);
    ASSERT_FALSE(counts) << text;
    EXPECT_THAT(counts.error().message, HasSubstr("c.json"));
  }
}

TEST(Sampler, SameSeedSameLists) {
  const Catalogue catalogue = shipped();
  const Cooccurrence counts = shipped_counts(catalogue);
  const auto a = sample_lists(catalogue, counts, {.lists = 40, .seed = 5});
  const auto b = sample_lists(catalogue, counts, {.lists = 40, .seed = 5});
  const auto c = sample_lists(catalogue, counts, {.lists = 40, .seed = 6});
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(*a, *b);
  EXPECT_NE(*a, *c);
  size_t pairs = 0;
  for (const auto& list : *a) {
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
    EXPECT_EQ(std::set<std::string>(list.begin(), list.end()).size(), list.size());
    pairs += list.size() == 2;
  }
  EXPECT_EQ(pairs, 20u);
}

TEST(Sampler, StaysInsideTheSubset) {
  const Catalogue catalogue = shipped();
  const Cooccurrence counts = shipped_counts(catalogue);
  const std::vector<std::string> subset = {"F.relu", "torch.sigmoid", "nn.Softmax", "torch.mul"};
  const auto lists = sample_lists(catalogue, counts, {.lists = 60, .seed = 1, .subset = subset});
  ASSERT_TRUE(lists);
  std::set<std::string> seen;
  for (const auto& list : *lists) seen.insert(list.begin(), list.end());
  EXPECT_THAT(seen, ElementsAre("torch.mul", "torch.nn.functional.softmax", "torch.relu", "torch.sigmoid"));
}

TEST(Sampler, DistinctListsWhileThereAreEnough) {
  const Catalogue catalogue = shipped();
  const Cooccurrence counts = shipped_counts(catalogue);
  // Three APIs have three pairs: the fourth list must repeat one.
  ListOptions options{.lists = 4, .sizes = {2}, .seed = 3, .subset = {"torch.relu", "torch.abs", "torch.sum"}};
  options.distinct = true;
  const auto lists = sample_lists(catalogue, counts, options);
  ASSERT_TRUE(lists);
  const std::set<std::vector<std::string>> first(lists->begin(), lists->begin() + 3);
  EXPECT_EQ(first.size(), 3u);
}

TEST(Sampler, FollowsTheCounts) {
  const Catalogue catalogue = shipped();
  Cooccurrence counts;
  for (int i = 0; i < 90; ++i) counts.add_module({"torch.relu", "torch.sum"});
  for (int i = 0; i < 10; ++i) counts.add_module({"torch.relu", "torch.abs"});
  const auto lists = sample_lists(catalogue, counts, {.lists = 2000, .sizes = {2}, .seed = 9, .uniform = 0.0});
  ASSERT_TRUE(lists);
  const auto with_sum = std::count(lists->begin(), lists->end(), std::vector<std::string>{"torch.relu", "torch.sum"});
  EXPECT_NEAR(static_cast<double>(with_sum) / 2000, 0.9, 0.03);
}

TEST(Sampler, ImpossibleRequestsAreErrors) {
  const Catalogue catalogue = shipped();
  const Cooccurrence counts = shipped_counts(catalogue);
  EXPECT_FALSE(sample_lists(catalogue, counts, {.lists = 1, .sizes = {3}, .subset = {"torch.relu", "torch.abs"}}));
  EXPECT_FALSE(sample_lists(catalogue, counts, {.lists = 1, .sizes = {}}));
  EXPECT_FALSE(sample_lists(catalogue, counts, {.lists = 1, .sizes = {2}, .subset = {"torch.relu", "torch.nothing"}}));
}

TEST(Stats, CountTheShippedFiles) {
  const Catalogue catalogue = shipped();
  const Json stats = stats_json(catalogue, shipped_counts(catalogue));
  EXPECT_EQ(stats["apis"], catalogue.apis().size());
  EXPECT_EQ(stats["top"].size(), 20u);
  EXPECT_GE(stats["top"][0]["count"], stats["top"][19]["count"]);
}

}  // namespace
}  // namespace kz::apis
