// For tests: a small byte-level tokenizer.json. 256 bytes, a few merges, added tokens both special and ordinary.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace kz::lm {

// The byte-level alphabet as code points in UTF-8, in order of the byte.
inline std::vector<std::string> byte_alphabet() {
  std::vector<std::string> out;
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const int code = printable ? b : next++;
    std::string s;
    if (code < 128) {
      s = static_cast<char>(code);
    } else {
      s = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    }
    out.push_back(s);
  }
  return out;
}

// Ids: bytes 0-255, merges "th" "he" "the" "in" 256-259, then added tokens from 260: <|end|> (special), <|answer|>
// (special), "float* " (ordinary), "1024" (ordinary).
inline Json test_tokenizer() {
  Json vocab = Json::object();
  int id = 0;
  for (const std::string& s : byte_alphabet()) vocab[s] = id++;
  const std::vector<std::pair<std::string, std::string>> merges{{"t", "h"}, {"h", "e"}, {"th", "e"}, {"i", "n"}};
  Json list = Json::array();
  for (const auto& [a, b] : merges) {
    vocab[a + b] = id++;
    list.push_back(a + " " + b);
  }
  Json added = Json::array();
  for (const auto& [text, special] : std::vector<std::pair<std::string, bool>>{
           {"<|end|>", true}, {"<|answer|>", true}, {"float* ", false}, {"1024", false}})
    added.push_back({{"id", id++},
                     {"content", text},
                     {"special", special},
                     {"normalized", false},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false}});
  return {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"},
           {"pattern",
            {{"Regex",
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
           {"behavior", "Isolated"},
           {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}}}}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

inline constexpr int kTestVocab = 264, kTestEnd = 260;

}  // namespace kz::lm
