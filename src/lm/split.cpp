#include "lm/split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace kz::lm {

namespace {

// What ByteLevel means by use_regex: the words of GPT-2.
constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// These files are written for Oniguruma, whose \s is Unicode's White_Space; PCRE2's \s has U+180E as well.
std::string white_space(const std::string& pattern) {
  static constexpr const char* kSpace = R"(\p{Z}\x{09}-\x{0d}\x{85})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char e = pattern[++i];
      if (e == 's') {
        out += in_class ? kSpace : std::string("[") + kSpace + "]";
      } else if (e == 'S' && !in_class) {
        out += std::string("[^") + kSpace + "]";
      } else {
        out += {c, e};
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string escaped(const std::string& literal) {
  std::string out;
  for (const char c : literal) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string pcre_error(int code) {
  PCRE2_UCHAR buffer[128];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Splitter::Rule {
  struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  struct FreeMatch {
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool keep_matches = true, keep_rest = true;

  static Result<std::unique_ptr<Rule>> make(const std::string& pattern, const std::string& where) {
    int error = 0;
    PCRE2_SIZE at = 0;
    const std::string text = white_space(pattern);
    auto rule = std::make_unique<Rule>();
    rule->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &at, nullptr));
    if (!rule->code) {
      return fail("tokenizer", where + ": the regex does not compile (" + pcre_error(error) + " at " +
                                   std::to_string(at) + "); take tokenizer.json from the model's own folder");
    }
    pcre2_jit_compile(rule->code.get(), PCRE2_JIT_COMPLETE);  // without JIT it only runs slower
    return rule;
  }

  void apply(std::string_view text, std::vector<std::string_view>& out) const {
    const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    size_t from = 0, search = 0;
    const auto emit = [&](bool keep, size_t begin, size_t end) {
      if (keep && end > begin) out.push_back(text.substr(begin, end - begin));
    };
    while (search < text.size()) {
      const int rc = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), search,
                                 PCRE2_NO_UTF_CHECK, match.get(), nullptr);
      if (rc < 0) break;  // no match left, or the pattern's limits are reached: what remains is one word
      const PCRE2_SIZE* v = pcre2_get_ovector_pointer(match.get());
      if (v[1] == v[0]) {  // an empty match cuts nothing; go on after the next code point
        search = v[1] + 1;
        while (search < text.size() && (static_cast<unsigned char>(text[search]) & 0xC0) == 0x80) ++search;
        continue;
      }
      emit(keep_rest, from, v[0]);
      emit(keep_matches, v[0], v[1]);
      from = search = v[1];
    }
    emit(keep_rest, from, text.size());
  }
};

Splitter::Splitter() = default;
Splitter::Splitter(Splitter&&) noexcept = default;
Splitter& Splitter::operator=(Splitter&&) noexcept = default;
Splitter::~Splitter() = default;

Result<Splitter> Splitter::parse(const Json& json, std::string_view where) {
  Splitter splitter;
  const std::string at(where);
  std::vector<Json> steps;
  if (json.is_object() && json.value("type", "") == "Sequence") {
    for (const Json& step : json.value("pretokenizers", Json::array())) steps.push_back(step);
  } else if (!json.is_null()) {
    steps.push_back(json);
  }
  for (const Json& step : steps) {
    const std::string type =
        step.is_object() && step.contains("type") && step["type"].is_string() ? step["type"].get<std::string>() : "";
    if (type == "ByteLevel") {
      if (step.value("add_prefix_space", true)) splitter.add_prefix_space_ = true;
      if (step.value("use_regex", true)) {
        KZ_ASSIGN(auto rule, Rule::make(kGpt2, at));
        splitter.rules_.push_back(std::move(rule));
      }
    } else if (type == "Split") {
      const Json pattern = step.value("pattern", Json::object());
      std::string regex;
      if (pattern.is_object() && pattern.contains("Regex") && pattern["Regex"].is_string()) {
        regex = pattern["Regex"].get<std::string>();
      } else if (pattern.is_object() && pattern.contains("String") && pattern["String"].is_string()) {
        regex = escaped(pattern["String"].get<std::string>());
      } else {
        return fail("tokenizer",
                    at + ": a Split without Regex or String; take tokenizer.json from the model's own folder");
      }
      KZ_ASSIGN(auto rule, Rule::make(regex, at));
      const std::string behavior = step.value("behavior", "Isolated");
      if (behavior == "Removed") {
        const bool invert = step.value("invert", false);
        rule->keep_matches = invert;
        rule->keep_rest = !invert;
      } else if (behavior != "Isolated") {
        return fail("tokenizer",
                    at + ": Split behavior \"" + behavior + "\" is not supported, only Isolated and Removed");
      }
      splitter.rules_.push_back(std::move(rule));
    } else {
      return fail("tokenizer",
                  at + ": type \"" + type + "\" is not supported, only Split, ByteLevel and a Sequence of them");
    }
  }
  return splitter;
}

std::vector<std::string_view> Splitter::words(std::string_view text) const {
  std::vector<std::string_view> words{text}, next;
  for (const auto& rule : rules_) {
    next.clear();
    for (const std::string_view word : words) rule->apply(word, next);
    words.swap(next);
  }
  return words;
}

}  // namespace kz::lm
