#include "lm/tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <unordered_map>

#include "base/json.h"
#include "lm/bpe.h"
#include "lm/split.h"
#include "lm/utf8.h"

namespace kz::lm {

namespace {

constexpr const char* kRemedy = "; take tokenizer.json from the model's own folder again";
constexpr int64_t kMaxId = 1 << 24;

// The byte-level alphabet: printable bytes stand for themselves, the others for code points from 256 on.
const std::array<std::string, 256>& byte_symbols() {
  static const std::array<std::string, 256> table = [] {
    std::array<std::string, 256> t;
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const int code = printable ? b : next++;
      std::string& s = t[static_cast<size_t>(b)];
      if (code < 0x80) {
        s += static_cast<char>(code);
      } else {
        s += static_cast<char>(0xC0 | code >> 6);
        s += static_cast<char>(0x80 | (code & 0x3F));
      }
    }
    return t;
  }();
  return table;
}

// The bytes that a vocabulary entry stands for, or nothing if it is not in the byte-level alphabet.
std::optional<std::string> bytes_of_symbol(std::string_view symbol) {
  static const auto* reverse = [] {
    auto* map = new std::unordered_map<std::string, char>;
    for (size_t b = 0; b < 256; ++b) map->emplace(byte_symbols()[b], static_cast<char>(b));
    return map;
  }();
  std::string out;
  for (size_t i = 0; i < symbol.size();) {
    const size_t n = utf8_length(symbol, i);
    const auto it = reverse->find(std::string(symbol.substr(i, n)));
    if (n == 0 || it == reverse->end()) return std::nullopt;
    out += it->second;
    i += n;
  }
  return out;
}

struct Added {
  std::string content;
  int32_t id = 0;
  bool special = false, single_word = false, lstrip = false, rstrip = false, normalized = false;
};

// Finds the longest added token at a position.
class Trie {
 public:
  void add(std::string_view text, int32_t value) {
    int32_t node = 0;
    for (const char c : text) {
      const auto [it, fresh] = next_.try_emplace(edge(node, c), static_cast<int32_t>(values_.size()));
      if (fresh) values_.push_back(-1);
      node = it->second;
    }
    values_[static_cast<size_t>(node)] = value;
    if (!text.empty()) starts_[static_cast<unsigned char>(text[0])] = true;
  }
  // Value and length of the longest match at `at`; value -1 for none.
  std::pair<int32_t, size_t> longest(std::string_view text, size_t at) const {
    std::pair<int32_t, size_t> best{-1, 0};
    if (!starts_[static_cast<unsigned char>(text[at])]) return best;
    int32_t node = 0;
    for (size_t i = at; i < text.size(); ++i) {
      const auto it = next_.find(edge(node, text[i]));
      if (it == next_.end()) break;
      node = it->second;
      if (values_[static_cast<size_t>(node)] >= 0) best = {values_[static_cast<size_t>(node)], i + 1 - at};
    }
    return best;
  }
  bool empty() const { return values_.size() == 1; }

 private:
  static uint64_t edge(int32_t node, char c) {
    return static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(c);
  }
  std::unordered_map<uint64_t, int32_t> next_;
  std::vector<int32_t> values_{-1};
  std::array<bool, 256> starts_{};
};

int32_t code_point(std::string_view text, size_t at) {
  utf8proc_int32_t code = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                   static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  return code;
}
size_t previous(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}
bool is_space(int32_t c) {
  if ((c >= 9 && c <= 13) || c == 0x85) return true;
  const auto k = utf8proc_category(c);
  return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}
bool is_word(int32_t c) {
  const auto k = utf8proc_category(c);
  return c == '_' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NO);
}

std::string nfc(std::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) return std::string(text);
  utf8proc_uint8_t* out = nullptr;
  const auto n =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &out, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (n < 0) return std::string(text);
  std::string result(reinterpret_cast<const char*>(out), static_cast<size_t>(n));
  std::free(out);
  return result;
}

}  // namespace

struct Tokenizer::Impl {
  std::string source;
  bool nfc = false, ignore_merges = false;
  std::optional<Splitter> splitter;
  std::optional<Bpe> bpe;
  std::unordered_map<std::string, int32_t> words;  // whole words by their bytes, for ignore_merges
  std::vector<std::string> bytes;                  // id -> what it decodes to
  std::vector<std::string> names;                  // id -> its text in the file
  std::vector<Added> added;
  std::unordered_map<int32_t, size_t> added_by_id;
  std::unordered_map<std::string, int32_t> by_name;
  Trie raw, normalized;  // added tokens matched before and after NFC; values index `added`

  Status read(const Json& json, const std::string& where);
  Status read_added(const Json& json, const std::string& where);
  Status read_vocab(const Json& model, const std::string& where);
  Status read_merges(const Json& model, const std::string& where);
  void name(int32_t id, std::string text, std::string decoded);

  // Cuts `text` at the added tokens of `trie`; calls plain(piece) between them and appends their ids.
  template <typename Plain>
  void cut(const Trie& trie, std::string_view text, bool specials, std::vector<int32_t>& out, const Plain& plain) const;
  void encode_plain(std::string_view text, std::vector<int32_t>& out) const;
};

void Tokenizer::Impl::name(int32_t id, std::string text, std::string decoded) {
  if (static_cast<size_t>(id) >= bytes.size()) {
    bytes.resize(static_cast<size_t>(id) + 1);
    names.resize(static_cast<size_t>(id) + 1);
  }
  by_name[text] = id;
  names[static_cast<size_t>(id)] = std::move(text);
  bytes[static_cast<size_t>(id)] = std::move(decoded);
}

Status Tokenizer::Impl::read_vocab(const Json& model, const std::string& where) {
  const Json vocab = model.value("vocab", Json());
  if (!vocab.is_object() || vocab.empty())
    return fail("tokenizer", where + ": model.vocab is missing or empty" + kRemedy);
  for (const auto& [text, id] : vocab.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMaxId)
      return fail("tokenizer",
                  where + ": model.vocab[" + dump_json(Json(text)) + "] has id " + dump_json(id) + kRemedy);
    const auto value = id.get<int32_t>();
    if (static_cast<size_t>(value) < names.size() && !names[static_cast<size_t>(value)].empty()) {
      return fail("tokenizer", where + ": id " + std::to_string(value) + " stands for both " +
                                   dump_json(Json(names[static_cast<size_t>(value)])) + " and " +
                                   dump_json(Json(text)) + " in model.vocab" + kRemedy);
    }
    const auto decoded = bytes_of_symbol(text);
    name(value, text, decoded ? *decoded : text);
    if (ignore_merges && decoded) words.emplace(*decoded, value);
  }
  std::array<int32_t, 256> single{};
  for (size_t b = 0; b < 256; ++b) {
    const auto it = by_name.find(byte_symbols()[b]);
    if (it == by_name.end()) {
      return fail("tokenizer", where + ": model.vocab has no token " + dump_json(Json(byte_symbols()[b])) +
                                   " for byte " + std::to_string(b) + "; only byte-level vocabularies are supported" +
                                   kRemedy);
    }
    single[b] = it->second;
  }
  bpe.emplace(single);
  return {};
}

Status Tokenizer::Impl::read_merges(const Json& model, const std::string& where) {
  const Json merges = model.value("merges", Json());
  if (!merges.is_array()) return fail("tokenizer", where + ": model.merges is no list" + kRemedy);
  bpe->reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    const auto wrong = [&](const std::string& why) {
      return fail("tokenizer",
                  where + ": model.merges[" + std::to_string(i) + "] " + dump_json(merge) + ": " + why + kRemedy);
    };
    std::string left, right;
    if (merge.is_string()) {
      const std::string& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        return wrong("is no pair \"a b\"");
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else {
      return wrong("is no pair");
    }
    int32_t ids[3];
    const std::string* texts[3] = {&left, &right, nullptr};
    const std::string both = left + right;
    texts[2] = &both;
    for (int k = 0; k < 3; ++k) {
      const auto it = by_name.find(*texts[k]);
      if (it == by_name.end()) return wrong(dump_json(Json(*texts[k])) + " is not in model.vocab");
      ids[k] = it->second;
    }
    bpe->add_merge(ids[0], ids[1], ids[2]);
  }
  return {};
}

Status Tokenizer::Impl::read_added(const Json& json, const std::string& where) {
  const Json list = json.value("added_tokens", Json::array());
  if (!list.is_array()) return fail("tokenizer", where + ": added_tokens is no list" + kRemedy);
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& t = list[i];
    const std::string at = where + ": added_tokens[" + std::to_string(i) + "]";
    if (!t.is_object() || !t.contains("content") || !t["content"].is_string() || !t.contains("id") ||
        !t["id"].is_number_integer())
      return fail("tokenizer", at + " has no content and id" + kRemedy);
    Added a;
    a.content = t["content"].get<std::string>();
    const auto id = t["id"].get<int64_t>();
    if (id < 0 || id >= kMaxId || a.content.empty())
      return fail("tokenizer", at + " has an empty content or a wild id" + kRemedy);
    a.id = static_cast<int32_t>(id);
    const auto slot = static_cast<size_t>(id);
    if (slot < names.size() && !names[slot].empty() && names[slot] != a.content)
      return fail("tokenizer",
                  at + ": id " + std::to_string(id) + " is " + dump_json(Json(names[slot])) + " already" + kRemedy);
    a.special = t.value("special", false);
    a.single_word = t.value("single_word", false);
    a.lstrip = t.value("lstrip", false);
    a.rstrip = t.value("rstrip", false);
    a.normalized = t.value("normalized", false);
    name(a.id, a.content, a.content);
    added_by_id[a.id] = added.size();
    const auto index = static_cast<int32_t>(added.size());
    if (a.normalized) {
      normalized.add(nfc ? lm::nfc(a.content) : a.content, index);
    } else {
      raw.add(a.content, index);
    }
    added.push_back(std::move(a));
  }
  return {};
}

Status Tokenizer::Impl::read(const Json& json, const std::string& where) {
  if (!json.is_object() || !json.contains("model") || !json["model"].is_object())
    return fail("tokenizer", where + ": has no \"model\"" + kRemedy);
  const Json& model = json["model"];
  if (model.value("type", "BPE") != "BPE")
    return fail("tokenizer",
                where + ": model.type " + dump_json(model["type"]) + " is not supported, only byte-level BPE");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json value = model.value(key, Json());
    if (!value.is_null() && value != "")
      return fail("tokenizer", where + ": model." + key + " is not supported, only byte-level BPE");
  }
  if (model.value("byte_fallback", false))
    return fail("tokenizer", where + ": model.byte_fallback is not supported, only byte-level BPE");
  ignore_merges = model.value("ignore_merges", false);

  Json normalizer = json.value("normalizer", Json());
  if (normalizer.is_object() && normalizer.value("type", "") == "Sequence" &&
      normalizer.value("normalizers", Json::array()).size() == 1)
    normalizer = normalizer["normalizers"][0];
  if (normalizer.is_object() && normalizer.value("type", "") == "NFC") {
    nfc = true;
  } else if (!normalizer.is_null() && !(normalizer.is_object() && normalizer.value("normalizers", Json(1)).empty())) {
    return fail("tokenizer", where + ": normalizer " + dump_json(normalizer) + " is not supported, only NFC or none");
  }
  KZ_ASSIGN(splitter, Splitter::parse(json.value("pre_tokenizer", Json()), where + ": pre_tokenizer"));
  KZ_TRY(read_vocab(model, where));
  KZ_TRY(read_merges(model, where));
  return read_added(json, where);
}

template <typename Plain>
void Tokenizer::Impl::cut(const Trie& trie, std::string_view text, bool specials, std::vector<int32_t>& out,
                          const Plain& plain) const {
  size_t from = 0;
  if (!trie.empty()) {
    for (size_t i = 0; i < text.size();) {
      const auto [index, length] = trie.longest(text, i);
      if (index < 0) {
        ++i;
        continue;
      }
      size_t begin = i, end = i + length;
      i = end;
      const Added& a = added[static_cast<size_t>(index)];
      if (a.special && !specials) continue;
      if (a.single_word && ((begin > 0 && is_word(code_point(text, previous(text, begin)))) ||
                            (end < text.size() && is_word(code_point(text, end)))))
        continue;
      if (a.lstrip) {
        while (begin > from && is_space(code_point(text, previous(text, begin)))) begin = previous(text, begin);
      }
      if (a.rstrip) {
        while (end < text.size() && is_space(code_point(text, end))) end += utf8_length(text, end);
      }
      if (begin > from) plain(text.substr(from, begin - from));
      out.push_back(a.id);
      from = end;
      i = std::max(i, end);
    }
  }
  if (from < text.size()) plain(text.substr(from));
}

void Tokenizer::Impl::encode_plain(std::string_view text, std::vector<int32_t>& out) const {
  std::string spaced;
  if (splitter->add_prefix_space() && !text.empty() && text[0] != ' ') {
    spaced = " " + std::string(text);
    text = spaced;
  }
  for (const std::string_view word : splitter->words(text)) {
    if (ignore_merges) {
      const auto it = words.find(std::string(word));
      if (it != words.end()) {
        out.push_back(it->second);
        continue;
      }
    }
    bpe->encode(word, out);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(std::string_view json, std::string_view where) {
  KZ_ASSIGN(const Json value, parse_json(json, where));
  auto impl = std::make_unique<Impl>();
  impl->source = json;
  try {  // a field of the wrong type, where a default is looked up
    KZ_TRY(impl->read(value, std::string(where)));
  } catch (const Json::exception& e) {
    return fail("tokenizer", std::string(where) + ": " + e.what() + kRemedy);
  }
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const fs::path& path) {
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? path / "tokenizer.json" : path;
  KZ_ASSIGN(const std::string text, read_file(file, 256 << 20));
  return parse(text, file.string());
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool specials) const {
  std::vector<int32_t> out;
  std::string repaired;
  if (!valid_utf8(text)) {
    repaired = replace_invalid_utf8(text);
    text = repaired;
  }
  impl_->cut(impl_->raw, text, specials, out, [&](std::string_view piece) {
    const std::string normal = impl_->nfc ? nfc(piece) : std::string(piece);
    impl_->cut(impl_->normalized, normal, specials, out,
               [&](std::string_view plain) { impl_->encode_plain(plain, out); });
  });
  return out;
}

std::string Tokenizer::decode(const std::vector<int32_t>& tokens, bool specials) const {
  std::string out;
  for (const int32_t id : tokens) {
    if (id < 0 || static_cast<size_t>(id) >= impl_->bytes.size() || (!specials && is_special(id))) continue;
    out += impl_->bytes[static_cast<size_t>(id)];
  }
  return valid_utf8(out) ? out : replace_invalid_utf8(out);
}

int64_t Tokenizer::size() const { return static_cast<int64_t>(impl_->bytes.size()); }

std::optional<int32_t> Tokenizer::find(std::string_view text) const {
  const auto it = impl_->by_name.find(std::string(text));
  if (it == impl_->by_name.end()) return std::nullopt;
  return it->second;
}

std::string Tokenizer::token(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < impl_->names.size() ? impl_->names[static_cast<size_t>(id)] : "";
}

bool Tokenizer::is_special(int32_t id) const {
  const auto it = impl_->added_by_id.find(id);
  return it != impl_->added_by_id.end() && impl_->added[it->second].special;
}

const std::string& Tokenizer::source() const { return impl_->source; }

}  // namespace kz::lm
