#include "corpus/tokenizer_writer.h"

#include <set>

#include "base/json.h"
#include "corpus/chain.h"
#include "corpus/family_parts.h"
#include "corpus/text_parts.h"

namespace kz::corpus {
namespace {

// The split regex of Qwen2's tokenizer.
const std::string kSplit =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+";

std::string utf8(int code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// Byte-level BPE writes a byte as a visible character: printable ones as themselves, the others from U+0100 on.
std::vector<std::string> byte_letters() {
  std::vector<std::string> letters;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    letters.push_back(utf8(visible ? byte : next));
    if (!visible) ++next;
  }
  return letters;
}

std::vector<std::string> boilerplate() {
  return {kModuleHead,
          kModuleForward,
          kModuleReturn,
          kModuleTail,
          kCppHead,
          kCppInput,
          kCppSizes,
          kCppWidth,
          kCppWeightRows,
          kCppWeightColumns,
          kCppOutput,
          kCppPointers,
          kCppPointer,
          kCppPointerEnd,
          kCppRows,
          kCppTail,
          kCppFastMath,
          kCppModel,
          kCppCall,
          kTritonHead,
          kTritonPointer,
          kTritonSizes,
          kTritonWidth,
          kTritonLoad,
          kTritonTail,
          kTritonShape,
          kTritonWeightWidth,
          kTritonWeightRows,
          kTritonWeightColumns,
          kTritonOutput,
          kTritonGrid,
          kTritonCall,
          kTritonBlock,
          kTritonEnd};
}

std::vector<std::string> module_fragments() {
  std::vector<std::string> list = {"        x = ",
                                   "        self.m",
                                   "self.m",
                                   " = ",
                                   "(x)\n",
                                   "()\n",
                                   ")\n",
                                   "(x, ",
                                   "(",
                                   "):\n",
                                   ", ",
                                   "torch.randn(",
                                   "torch.rand(",
                                   ", torch.randn(",
                                   "-",
                                   "(x, dim=-1)\n",
                                   "(dim=-1)\n",
                                   "(x, dim=-1, keepdim=True)\n",
                                   "(dim=-1, keepdim=True)\n",
                                   ", dims=-1)\n",
                                   "(x, dims=[-1])\n",
                                   "(dims=[-1])\n",
                                   "(x, approximate='tanh')\n",
                                   "(approximate='tanh')\n",
                                   "(x, 3)\n",
                                   "(3)\n",
                                   ", elementwise_affine=False)\n",
                                   "(x, (",
                                   ",))\n"};
  return list;
}

std::vector<std::string> cpp_fragments() {
  std::vector<std::string> list = {"    " + kLoop,
                                   "    " + kLoop + "v[j] = ",
                                   "      " + kLoop,
                                   "      " + kLoop + "v[j] = ",
                                   "      " + kLoop + "s += ",
                                   "    {\n",
                                   "    }\n",
                                   "      float m = 0.0f, s = 0.0f;\n",
                                   "      float m = v[0], s = 0.0f;\n",
                                   "      float s = 0.0f;\n",
                                   "      float s = v[0];\n",
                                   "      m = ",
                                   "      s = ",
                                   "      v[0] = s;\n      n = 1;\n    }\n",
                                   "    for (int o = 0; o < D; o++) ",
                                   "for (int o = 0; o < D; o++) ",
                                   "    for (int o = 0; o < D; o++) {\n",
                                   "    n = D;\n",
                                   "    n = n / 2;\n",
                                   "      u[o] = s;\n    }\n",
                                   "u[o]",
                                   "s += ",
                                   "v[j]",
                                   "u[j]",
                                   "v[n - 1 - j]",
                                   "v[n + j]",
                                   "u[(j + ",
                                   ") % n] = v[j];\n",
                                   "p[i * n + j]",
                                   "p[j]",
                                   "p[o * n + j]",
                                   "p[j * D + o]",
                                   ";\n",
                                   " ? ",
                                   " : ",
                                   " > ",
                                   " < ",
                                   " * ",
                                   " + ",
                                   " - ",
                                   " / ",
                                   " += ",
                                   "(v[j] - m)",
                                   "f",
                                   "0.0f",
                                   "1.0f",
                                   "2.0f",
                                   "3.0f",
                                   "6.0f",
                                   "0.5f",
                                   "(1.0f + ",
                                   ")",
                                   "));\n",
                                   ");\n",
                                   "(n - 1)",
                                   "m",
                                   "n",
                                   "s",
                                   "-v[j]"};
  for (const char* f :
       {"expf", "expm1f", "logf", "log1pf", "fmaxf", "fminf", "fabsf", "sqrtf", "erff", "tanhf", "sinf", "cosf"})
    list.push_back(std::string(f) + "(");
  for (const char* number :
       {"0.70710678", "0.044715", "1.5957691", "1.0507010", "1.6732632", "1e-5", "1e-12", "1.1920929e-7"}) {
    list.push_back(number);
    list.push_back(std::string(number) + "f");
  }
  return list;
}

std::vector<std::string> triton_fragments() {
  std::vector<std::string> list = {"    v = ",
                                   "    u = ",
                                   "    m = ",
                                   "    w = ",
                                   "    W = W // 2\n",
                                   "    W = 1\n",
                                   "    W = D\n",
                                   "    mask = (rows < N) & (cols < W)\n",
                                   "    k = tl.arange(0, BLOCK)[:, None]\n",
                                   ", mask=(k < W) & (cols < D), other=0.0)\n",
                                   "tl.dot(tl.where(mask, v, 0.0), w, input_precision='ieee')\n",
                                   "cols * W + k",
                                   "k * D + cols",
                                   "tl.load(",
                                   "_ptr + ",
                                   "_ptr + rows * W + cols, mask=mask, other=0.0)",
                                   "_ptr + cols, mask=cols < W, other=0.0)",
                                   ", axis=1, keep_dims=True)",
                                   ", axis=1)\n",
                                   "tl.where(mask, v, 0.0)",
                                   "tl.where(mask, v, -float('inf'))",
                                   "tl.where(mask, -v, -float('inf'))",
                                   "tl.where(mask, v, float('inf'))",
                                   "tl.where(mask, v - m, 0.0)",
                                   "tl.where(v > 0.0, v, ",
                                   "tl.gather(v, tl.where(mask, ",
                                   ", 0), 1)",
                                   "W - 1 - cols",
                                   "W + cols",
                                   "(cols + W - ",
                                   ") % W",
                                   "v",
                                   "w",
                                   "u",
                                   "0.0",
                                   "1.0",
                                   "2.0",
                                   "3.0",
                                   "6.0",
                                   "0.5",
                                   "(1.0 + ",
                                   "(1.0 - ",
                                   " / W",
                                   " / (W - 1)",
                                   "W",
                                   "D",
                                   " // 2",
                                   "max(W, D)",
                                   "\n"};
  for (const char* f : {"maximum", "minimum", "sigmoid", "exp", "log", "abs", "erf", "sin", "cos", "sqrt", "rsqrt",
                        "sum", "max", "min", "cumsum"})
    list.push_back("tl." + std::string(f) + "(");
  return list;
}

std::vector<std::string> numbers() {
  std::vector<std::string> list = scalar_texts();
  for (const std::vector<int>& values : {row_counts(), widths(), shifts()})
    for (int value : values) list.push_back(std::to_string(value));
  for (int width : widths()) list.push_back(std::to_string(width / 2));  // after glu
  return list;
}

std::vector<std::string> api_names() {
  std::vector<std::string> list;
  for (const Family& family : families()) {
    list.push_back(family.api);
    for (const Spelling& spelling : family.spellings) list.push_back(spelling.form);
  }
  return list;
}

Json added_token(size_t id, const std::string& text, bool special) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

}  // namespace

std::vector<std::string> special_tokens() {
  return {"<|pad|>", "<|end|>", "<|coder|>", "<|proposer|>", "<|cpp|>", "<|triton|>", "<|answer|>"};
}

std::vector<std::string> phrase_tokens() {
  std::vector<std::string> list;
  std::set<std::string> seen;
  for (const auto& part :
       {boilerplate(), module_fragments(), cpp_fragments(), triton_fragments(), numbers(), api_names()})
    for (const std::string& phrase : part)
      if (phrase.size() > 1 && seen.insert(phrase).second) list.push_back(phrase);  // one byte is a token already
  return list;
}

std::string nano_tokenizer_json() {
  Json vocabulary = Json::object();
  size_t id = 0;
  for (const std::string& letter : byte_letters()) vocabulary[letter] = id++;
  Json added = Json::array();
  for (const std::string& token : special_tokens()) added.push_back(added_token(id++, token, /*special=*/true));
  for (const std::string& token : phrase_tokens()) added.push_back(added_token(id++, token, /*special=*/false));
  const Json split = {{"type", "Split"}, {"pattern", {{"Regex", kSplit}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", {{"type", "NFC"}}},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
                     {"post_processor", byte_level},
                     {"decoder", byte_level},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", ""},
                       {"end_of_word_suffix", ""},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", vocabulary},
                       {"merges", Json::array()}}}};
  return dump_json(json, 1) + "\n";
}

}  // namespace kz::corpus
