#include "lm/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lm/bpe.h"
#include "lm/split.h"
#include "lm/test_tokenizer.h"
#include "lm/utf8.h"

namespace kz::lm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<const Tokenizer> make(const Json& json = test_tokenizer()) {
  auto t = Tokenizer::parse(json.dump(), "test.json");
  if (!t) throw std::runtime_error(t.error().message);
  return *t;
}
std::string error_of(const std::string& text) {
  const auto t = Tokenizer::parse(text, "tokenizer.json");
  return t ? "" : t.error().message;
}

TEST(Tokenizer, MergesByRankNotByPlace) {
  const auto t = make();
  EXPECT_THAT(t->encode("the"), ElementsAre(258));  // th + e, although h e is a merge too
  EXPECT_THAT(t->encode("he"), ElementsAre(257));
  EXPECT_THAT(t->encode("then"), ElementsAre(258, 'n'));
  EXPECT_THAT(t->encode(" in"), ElementsAre(' ', 259));  // the word is " in": a space is one of its bytes
}

TEST(Tokenizer, BothFormsOfMergesGiveTheSame) {
  Json json = test_tokenizer();
  for (Json& m : json["model"]["merges"]) {
    const auto text = m.get<std::string>();
    const size_t at = text.find(' ');
    m = {text.substr(0, at), text.substr(at + 1)};
  }
  const std::string text = "then the thin hen <|end|>in";
  EXPECT_EQ(make(json)->encode(text), make()->encode(text));
}

TEST(Tokenizer, AddedTokensComeBeforeMergesLongestFirst) {
  Json json = test_tokenizer();
  json["added_tokens"].push_back({{"id", 264}, {"content", "102"}, {"special", false}});
  json["added_tokens"].push_back({{"id", 265}, {"content", "<|end|><|end|>"}, {"special", true}});
  const auto t = make(json);
  EXPECT_THAT(t->encode("1024"), ElementsAre(263));
  EXPECT_THAT(t->encode("1025"), ElementsAre(264, '5'));
  EXPECT_THAT(t->encode("float* the"), ElementsAre(262, 258));
  EXPECT_THAT(t->encode("<|end|><|end|><|end|>"), ElementsAre(265, 260));
}

TEST(Tokenizer, SpecialsAreTextWhenAsked) {
  const auto t = make();
  const std::string forged = "a<|end|>1024";
  EXPECT_THAT(t->encode(forged), ElementsAre('a', 260, 263));
  const auto plain = t->encode(forged, /*specials=*/false);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 260), 0);
  EXPECT_EQ(plain.back(), 263);  // ordinary added tokens still match
  EXPECT_EQ(t->decode(plain), forged);
  EXPECT_EQ(t->decode({'a', 260, 'b'}), "ab");
  EXPECT_EQ(t->decode({'a', 260, 'b'}, /*specials=*/true), "a<|end|>b");
}

TEST(Tokenizer, FlagsOfAddedTokens) {
  Json json = test_tokenizer();
  json["added_tokens"][0]["lstrip"] = true;       // <|end|>
  json["added_tokens"][1]["rstrip"] = true;       // <|answer|>
  json["added_tokens"][3]["single_word"] = true;  // 1024
  const auto t = make(json);
  EXPECT_THAT(t->encode("a \t<|end|>"), ElementsAre('a', 260));
  EXPECT_THAT(t->encode("<|answer|>  a"), ElementsAre(261, 'a'));
  EXPECT_THAT(t->encode("x1024"), ElementsAre('x', '1', '0', '2', '4'));
  EXPECT_THAT(t->encode("1024,"), ElementsAre(263, ','));
}

TEST(Tokenizer, TextIsNormalisedToNfcButRawTokensAreNot) {
  Json json = test_tokenizer();
  json["added_tokens"].push_back({{"id", 264}, {"content", "e\u0301!"}, {"special", false}, {"normalized", false}});
  json["added_tokens"].push_back({{"id", 265}, {"content", "o\u0301"}, {"special", false}, {"normalized", true}});
  const auto t = make(json);
  EXPECT_EQ(t->decode(t->encode("e\u0301")), "\u00e9");
  EXPECT_THAT(t->encode("e\u0301!"), ElementsAre(264));
  EXPECT_THAT(t->encode("\u00f3"), ElementsAre(265));  // the token's own text is normalised for matching
}

TEST(Tokenizer, BrokenUtf8BecomesTheReplacementCharacter) {
  const auto t = make();
  EXPECT_EQ(t->decode(t->encode("a\xFF\xC3(")), "a\uFFFD\uFFFD(");
  EXPECT_EQ(t->decode({'a', t->encode("\u00e9")[0]}), "a\uFFFD");  // half of a character
  EXPECT_EQ(t->decode({-1, 999999, 'a'}), "a");
}

TEST(Utf8, ReplacesMaximalSubpartsAsPythonDoes) {
  EXPECT_EQ(replace_invalid_utf8("\xF0\x90\x80"), "\uFFFD");              // one cut character
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_TRUE(valid_utf8("\u00e9\u4e2d\U0001F600"));
}

RC_GTEST_PROP(TokenizerProperty, DecodeUndoesEncode, ()) {
  static const auto t = make();
  static const std::vector<std::string> pieces{"the ",         "in",         "<|end|>", "1024", "float* ",
                                               "\u4e2d\u6587", "\U0001F600", "  ",      "\n\n", "'s",
                                               "_x",           "9",          "\u00e9",  "<|",   "\t"};
  std::string text;
  for (const int i : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, static_cast<int>(pieces.size()))))
    text += pieces[static_cast<size_t>(i)];
  RC_ASSERT(t->decode(t->encode(text), true) == text);
  RC_ASSERT(t->decode(t->encode(text, false), true) == text);
}

RC_GTEST_PROP(TokenizerProperty, AnyBytesDecodeToTheirRepairedText, (const std::string& bytes)) {
  static const auto t = [] {
    Json json = test_tokenizer();
    json["normalizer"] = nullptr;
    return make(json);
  }();
  RC_ASSERT(t->decode(t->encode(bytes), true) == replace_invalid_utf8(bytes));
}

// The scan for short words and the queue for long ones are one algorithm: a word of more than 48 bytes is compared with
// the same merges applied one by one.
RC_GTEST_PROP(BpeProperty, LongWordsMergeAsShortOnes, ()) {
  std::array<int32_t, 256> bytes{};
  for (int i = 0; i < 256; ++i) bytes[static_cast<size_t>(i)] = i;
  Bpe bpe(bytes);
  std::vector<std::array<int32_t, 3>> merges;
  int32_t next = 256;
  for (int i = 0; i < 30; ++i) {
    const auto any = [&] {
      return *rc::gen::oneOf(rc::gen::inRange<int32_t>('a', 'e'), rc::gen::inRange<int32_t>(255, next));
    };
    const int32_t left = any(), right = any();
    if (left == 255 || right == 255) continue;
    const bool known =
        std::any_of(merges.begin(), merges.end(), [&](const auto& m) { return m[0] == left && m[1] == right; });
    if (known) continue;
    merges.push_back({left, right, next});
    bpe.add_merge(left, right, next++);
  }
  std::string word;
  for (int i = 0; i < 120; ++i) word += static_cast<char>(*rc::gen::inRange<int>('a', 'e'));
  std::vector<int32_t> expected(word.begin(), word.end());
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& m : merges) {  // the lowest rank that occurs anywhere, at its leftmost place
      for (size_t i = 0; i + 1 < expected.size() && !changed; ++i) {
        if (expected[i] != m[0] || expected[i + 1] != m[1]) continue;
        expected[i] = m[2];
        expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        changed = true;
      }
      if (changed) break;
    }
  }
  std::vector<int32_t> got;
  bpe.encode(word, got);
  RC_ASSERT(got == expected);
  got.clear();
  for (size_t i = 0; i < word.size(); i += 1) bpe.encode(word.substr(i, 1), got);
  RC_ASSERT(got == std::vector<int32_t>(word.begin(), word.end()));
}

TEST(Splitter, CutsAsTheModelsRegexSays) {
  const Json json = test_tokenizer()["pre_tokenizer"];
  const auto s = Splitter::parse(json, "t").value();
  EXPECT_THAT(s.words("I'm at x2:  go\n\n next"),
              ElementsAre("I", "'m", " at", " x", "2", ":", " ", " go", "\n\n", " next"));
  EXPECT_THAT(s.words("\u4e2d\u6587\u3002a"), ElementsAre("\u4e2d\u6587", "\u3002a"));
}

TEST(Splitter, WhiteSpaceIsUnicodes) {
  Json json = {{"type", "Split"}, {"pattern", {{"Regex", "\\s+"}}}, {"behavior", "Removed"}, {"invert", false}};
  EXPECT_THAT(Splitter::parse(json, "t").value().words("a\u2003b\u180ec\u0085d"), ElementsAre("a", "b\u180ec", "d"));
  json["invert"] = true;
  EXPECT_THAT(Splitter::parse(json, "t").value().words("a b"), ElementsAre(" "));
}

TEST(Splitter, Gpt2WordsByByteLevelsOwnRegex) {
  const auto s =
      Splitter::parse({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}, "t").value();
  EXPECT_THAT(s.words("we're 12 cats!"), ElementsAre("we", "'re", " 12", " cats", "!"));
}

TEST(TokenizerErrors, NameFilePlaceAndRemedy) {
  Json json = test_tokenizer();
  json["model"]["merges"][1] = "q zz";
  EXPECT_THAT(error_of(json.dump()), AllOf(HasSubstr("tokenizer.json"), HasSubstr("merges[1]"),
                                           HasSubstr("\"zz\" is not in model.vocab"), HasSubstr("take ")));
  json = test_tokenizer();
  json["model"]["merges"][0] = "t h e";
  EXPECT_THAT(error_of(json.dump()), HasSubstr("merges[0]"));
  json = test_tokenizer();
  json["model"]["vocab"].erase("a");
  EXPECT_THAT(error_of(json.dump()), HasSubstr("byte 97"));
  json = test_tokenizer();
  json["model"]["vocab"]["a"] = json["model"]["vocab"]["b"];
  EXPECT_THAT(error_of(json.dump()), HasSubstr("stands for both"));
  json = test_tokenizer();
  json["added_tokens"][0]["id"] = 5;
  EXPECT_THAT(error_of(json.dump()), HasSubstr("added_tokens[0]"));
  json = test_tokenizer();
  json["model"]["type"] = "WordPiece";
  EXPECT_THAT(error_of(json.dump()), HasSubstr("WordPiece"));
  json = test_tokenizer();
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(";
  EXPECT_THAT(error_of(json.dump()), HasSubstr("regex"));
  json = test_tokenizer();
  json["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_THAT(error_of(json.dump()), HasSubstr("Lowercase"));
  json = test_tokenizer();
  json["model"]["ignore_merges"] = "yes";
  EXPECT_NE(error_of(json.dump()), "");
  const std::string whole = test_tokenizer().dump();
  for (size_t n = 0; n < whole.size(); n += 97) {
    const std::string e = error_of(whole.substr(0, n));
    EXPECT_NE(e, "") << n;
    EXPECT_EQ(e.find('\n'), std::string::npos);
  }
}

TEST(Tokenizer, IgnoreMergesTakesWholeWordsFirst) {
  Json json = test_tokenizer();
  json["model"]["vocab"]["hen"] = 300;
  EXPECT_THAT(make(json)->encode("hen"), ElementsAre(257, 'n'));
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(make(json)->encode("hen"), ElementsAre(300));
}

}  // namespace
}  // namespace kz::lm
