#include "keck/build/source.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace kz::keck {
namespace {

bool word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool word_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The source with line splices undone, comments as a blank, literals as "". Directives keep their lines.
std::string bare_text(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\' && i + 1 < source.size() && source[i + 1] == '\n') {
      ++i;
    } else if (source[i] == '\\' && source.substr(i + 1, 2) == "\r\n") {
      i += 2;
    } else {
      text += source[i];
    }
  }
  std::string out;
  out.reserve(text.size());
  const size_t n = text.size();
  for (size_t i = 0; i < n;) {
    const char c = text[i];
    if (c == '/' && i + 1 < n && text[i + 1] == '/') {
      while (i < n && text[i] != '\n') ++i;
    } else if (c == '/' && i + 1 < n && text[i + 1] == '*') {
      const size_t end = text.find("*/", i + 2);
      i = end == std::string::npos ? n : end + 2;
      out += ' ';
    } else if (c == '"') {
      const bool raw = !out.empty() && out.back() == 'R' &&
                       (out.size() < 2 || !word_part(out[out.size() - 2]) || out[out.size() - 2] == '8' ||
                        out[out.size() - 2] == 'u' || out[out.size() - 2] == 'U' || out[out.size() - 2] == 'L');
      // The name of an include is no literal.
      const size_t line = out.rfind('\n') == std::string::npos ? 0 : out.rfind('\n') + 1;
      const bool directive = out.find("include", line) != std::string::npos && out.find('#', line) != std::string::npos;
      size_t end = n;
      if (raw) {
        const size_t open = text.find('(', i);
        if (open != std::string::npos) {
          const std::string close = ")" + text.substr(i + 1, open - i - 1) + "\"";
          const size_t at = text.find(close, open);
          if (at != std::string::npos) end = at + close.size();
        }
      } else {
        size_t j = i + 1;
        while (j < n && text[j] != '"' && text[j] != '\n') j += text[j] == '\\' ? 2 : 1;
        end = std::min(n, j < n && text[j] == '"' ? j + 1 : j);
      }
      out += directive ? text.substr(i, end - i) : "\"\"";
      i = end;
    } else if (c == '\'' && !(i > 0 && word_part(text[i - 1]) && i + 1 < n && word_part(text[i + 1]))) {
      size_t j = i + 1;
      while (j < n && text[j] != '\'' && text[j] != '\n') j += text[j] == '\\' ? 2 : 1;
      i = std::min(n, j + 1);
      out += "' '";
    } else {
      out += c;
      ++i;
    }
  }
  return out;
}

// Calls use(word) for each identifier of `text`; numbers with letters in them are skipped.
template <typename Use>
void each_word(std::string_view text, Use use) {
  for (size_t i = 0; i < text.size();) {
    if (word_start(text[i])) {
      size_t j = i;
      while (j < text.size() && word_part(text[j])) ++j;
      use(text.substr(i, j - i));
      i = j;
    } else if (std::isdigit(static_cast<unsigned char>(text[i])) != 0) {
      while (i < text.size() && (word_part(text[i]) || text[i] == '.' || text[i] == '\'')) ++i;
    } else {
      ++i;
    }
  }
}

// True for an include, whose line holds no names.
bool read_directive(std::string_view line, Mentions* mentions) {
  size_t i = line.find_first_not_of(" \t", 1);
  if (i == std::string_view::npos) return false;
  size_t j = i;
  while (j < line.size() && word_part(line[j])) ++j;
  const std::string_view name = line.substr(i, j - i);
  const std::string_view rest = line.substr(j);
  if (name == "include" || name == "include_next" || name == "import") {
    const size_t open = rest.find_first_not_of(" \t");
    const char close = open == std::string_view::npos ? '\0' : rest[open] == '<' ? '>' : rest[open] == '"' ? '"' : '\0';
    const size_t end = close == '\0' ? std::string_view::npos : rest.find(close, open + 1);
    if (end == std::string_view::npos) {
      mentions->computed_include = true;
    } else {
      mentions->includes.emplace_back(rest.substr(open + 1, end - open - 1));
    }
    return !mentions->computed_include;
  }
  if (name == "if" || name == "ifdef" || name == "ifndef" || name == "elif" || name == "elifdef" ||
      name == "elifndef") {
    each_word(rest, [&](std::string_view word) { mentions->tested.emplace(word); });
  }
  return false;
}

bool torch_folder(std::string_view include) {
  constexpr std::array kFolders = {"torch/", "ATen/", "c10/", "caffe2/", "pybind11/"};
  return std::any_of(kFolders.begin(), kFolders.end(),
                     [&](std::string_view f) { return include.substr(0, f.size()) == f; });
}

void read_words(std::string_view text, Mentions* mentions) {
  std::string_view last, before;
  each_word(text, [&](std::string_view word) {
    mentions->words.emplace(word);
    const auto at = static_cast<size_t>(word.data() - text.data());
    const size_t left = at == 0 ? std::string_view::npos : text.find_last_not_of(" \t\n", at - 1);
    const size_t right = text.find_first_not_of(" \t\n", at + word.size());
    const bool after =
        left != std::string_view::npos &&
        (text[left] == '.' || text.substr(left - (left > 0), 2) == "->" || text.substr(left - (left > 0), 2) == "::");
    const bool opens = right != std::string_view::npos && (text[right] == '(' || text[right] == '<');
    if (after || opens) mentions->reached.emplace(word);
    if (last == "namespace" && before == "using") mentions->opened.emplace(word);
    // class X : …, class X final : …
    const bool head = last == "struct" || last == "class" || word == "final";
    if (head && right != std::string_view::npos && text[right] == ':' && text.substr(right, 2) != "::")
      mentions->bases = true;
    before = last;
    last = word;
  });
}

}  // namespace

Mentions mentions_of(std::string_view source) {
  Mentions mentions;
  std::string text = bare_text(source);
  int depth = 0;
  bool below_zero = false, braces_in_directives = false, conditional = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const size_t first = line.find_first_not_of(" \t");
    if (first != std::string_view::npos && line[first] == '#') {
      const size_t tested = mentions.tested.size();
      const bool include = read_directive(line.substr(first), &mentions);
      conditional = conditional || mentions.tested.size() != tested;
      braces_in_directives = braces_in_directives || line.find_first_of("{}") != std::string_view::npos;
      if (include) std::fill(text.begin() + static_cast<long>(begin), text.begin() + static_cast<long>(end), ' ');
    } else {
      for (const char c : line) {
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        below_zero = below_zero || depth < 0;
      }
    }
    begin = end + 1;
  }
  mentions.unclosed = (depth != 0 || below_zero) && !braces_in_directives && !conditional;
  read_words(text, &mentions);
  return mentions;
}

std::string source_name(size_t index) { return "cpp_sources[" + std::to_string(index) + "]"; }

std::vector<std::string> units_of(const BuildRequest& request) {
  const auto line_of = [](const std::string& name) { return "#line 1 \"" + name + "\"\n"; };
  std::vector<std::string> units;
  for (size_t i = 0; i < request.cpp_sources.size(); ++i) {
    if (units.empty() || !request.implicit_headers) units.emplace_back();
    std::string& unit = units.back();
    // A source that ends in a backslash swallows the line that follows it, as it would in load_inline's own file.
    const bool spliced = unit.size() > 1 && unit[unit.size() - 2] == '\\';
    if (!spliced) unit += line_of(source_name(i));
    unit += request.cpp_sources[i] + '\n';
  }
  if (!request.functions.empty()) {
    if (units.empty()) units.emplace_back();
    std::string& unit = units.back();
    unit += line_of("functions") + "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n";
    for (const std::string& f : request.functions)
      unit += "m.def(\"" + f + "\", torch::wrap_pybind_function(" + f + "), \"" + f + "\");\n";
    unit += "}\n";
  }
  return units;
}

bool extension_comes_first(const std::string& source) {
  const Mentions mentions = mentions_of(source);
  const auto& all = mentions.includes;
  const auto at = std::find(all.begin(), all.end(), "torch/extension.h");
  if (at == all.end() || mentions.computed_include || std::any_of(all.begin(), at, torch_folder)) return false;
  // Nothing before it that could change what it means.
  const std::string before = bare_text(source.substr(0, source.find("torch/extension.h")));
  return before.find("#define") == std::string::npos && before.find("# define") == std::string::npos &&
         before.find("#undef") == std::string::npos && before.find("#if") == std::string::npos;
}

namespace {

// Whether torch has this header; where it is not known where torch is, it has.
bool torch_has(const Kit& kit, const std::string& include) {
  if (kit.torch_include.empty()) return true;
  std::error_code error;
  for (const fs::path& folder : {kit.torch_include, kit.torch_include / "torch/csrc/api/include"})
    if (fs::exists(folder / include, error)) return true;
  return false;
}

}  // namespace

std::string needs_full(const Mentions& mentions, const Kit& kit, std::vector<std::string>* forwarders) {
  for (const char* word : {"__has_include", "__has_include_next", "requires"})
    if (mentions.words.count(word) != 0) return std::string("uses ") + word;
  if (mentions.computed_include) return "includes a macro";
  for (const std::string& include : mentions.includes) {
    if (kit.brought.has(include)) {
      forwarders->push_back(include);
    } else if (torch_folder(include) && torch_has(kit, include)) {
      return "includes " + include;
    }
  }
  for (const std::string& word : mentions.tested)
    if (kit.missing.has(word)) return "tests " + word;
  const bool opens_torch = std::any_of(mentions.opened.begin(), mentions.opened.end(), [](const std::string& name) {
    return name == "torch" || name == "at" || name == "c10" || name == "caffe2" || name == "pybind11" || name == "py";
  });
  for (const std::string& word : mentions.words) {
    if (kit.conflict.has(word)) return "names " + word;
    if (opens_torch && kit.missing.has(word)) return "opens a namespace that has " + word;
  }
  return "";
}

}  // namespace kz::keck
