// The nano tokenizer against the texts that it is made for. The matching of added tokens, leftmost and longest, is
// written here once more in its plainest form; src/lm has the reader.
#include "corpus/tokenizer_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "corpus/family.h"
#include "corpus/row.h"

namespace kz::corpus {
namespace {

std::vector<std::string> pieces(const std::string& text, const std::set<std::string>& phrases) {
  size_t longest = 1;
  for (const std::string& phrase : phrases) longest = std::max(longest, phrase.size());
  std::vector<std::string> out;
  for (size_t i = 0; i < text.size();) {
    size_t n = std::min(longest, text.size() - i);
    while (n > 1 && !phrases.contains(text.substr(i, n))) --n;
    out.push_back(text.substr(i, n));
    i += n;
  }
  return out;
}

TEST(Tokenizer, IsSmallAndWellFormed) {
  const auto json = parse_json(nano_tokenizer_json(), "tokenizer.json");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["model"]["vocab"].size(), 256u);
  std::set<int> ids;
  std::set<std::string> texts;
  for (const Json& token : (*json)["added_tokens"]) {
    ids.insert(token["id"].get<int>());
    EXPECT_TRUE(texts.insert(token["content"]).second) << token["content"];
  }
  EXPECT_EQ(*ids.begin(), 256);
  EXPECT_EQ(*ids.rbegin(), 255 + static_cast<int>(ids.size()));
  EXPECT_LE(256 + ids.size(), 700u);
  for (const std::string& token : special_tokens()) EXPECT_TRUE(texts.contains(token)) << token;
}

TEST(Tokenizer, RowsAreShortAndNumbersWhole) {
  const std::vector<std::string> list = phrase_tokens();
  const std::set<std::string> phrases(list.begin(), list.end());
  Rng rng(11);
  std::map<std::string, size_t> total, longest;
  int rows = 0;
  for (const std::string backend : {"cpp", "triton"})
    for (const Family& family : families()) {
      const auto row = make_row(rng, {}, backend, family.name);
      ASSERT_TRUE(row);
      ++rows;
      for (const auto& [key, text] : {std::pair{"prompt", row->module}, std::pair{"answer", row->candidate}}) {
        const auto tokens = pieces(text, phrases);
        EXPECT_EQ(join(tokens, ""), text);
        total[key] += tokens.size();
        longest[key] = std::max(longest[key], tokens.size());
        // A digit alone is the end of nothing longer: numbers are one token each, so no two digits stand side by side.
        for (size_t i = 1; i < tokens.size(); ++i)
          EXPECT_FALSE(std::isdigit(tokens[i - 1].back()) && std::isdigit(tokens[i].front()))
              << tokens[i - 1] << "|" << tokens[i] << " in " << text;
      }
    }
  EXPECT_LE(total["prompt"] / rows, 40u);
  EXPECT_LE(total["answer"] / rows, 80u);
  EXPECT_LE(longest["prompt"], 70u);
  EXPECT_LE(longest["answer"], 160u);
}

}  // namespace
}  // namespace kz::corpus
