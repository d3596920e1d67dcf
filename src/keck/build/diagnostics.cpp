#include "keck/build/diagnostics.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/text.h"

namespace kz::keck {
namespace {

constexpr std::string_view kOpen = "\u2018", kClose = "\u2019";  // g++'s quotes, ' in the C locale

bool word_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// "file:line:col: error: message" -> true. `severity` is what stands before the message.
bool parse_head(std::string_view line, std::string* file, int* number, std::string_view* severity,
                std::string_view* message) {
  for (std::string_view kind : {"fatal error", "error", "warning", "note", "sorry, unimplemented"}) {
    const std::string mark = ": " + std::string(kind) + ": ";
    const size_t at = line.find(mark);
    if (at == std::string_view::npos) continue;
    // Before the mark: file:line or file:line:col.
    std::string_view place = line.substr(0, at);
    size_t colon = place.rfind(':');
    if (colon == std::string_view::npos) continue;
    int last = 0, previous = 0;
    const auto number_after = [&](std::string_view text, int* out) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
      return error == std::errc() && end == text.data() + text.size();
    };
    if (!number_after(place.substr(colon + 1), &last)) continue;
    const std::string_view head = place.substr(0, colon);
    const size_t second = head.rfind(':');
    if (second != std::string_view::npos && number_after(head.substr(second + 1), &previous)) {
      *file = head.substr(0, second);
      *number = previous;
    } else {
      *file = head;
      *number = last;
    }
    *severity = kind;
    *message = line.substr(at + mark.size());
    return true;
  }
  return false;
}

bool is_error(std::string_view severity) { return severity != "warning" && severity != "note"; }

// A place where g++ is killed or gives up without a place: "cc1plus: error: …", "g++: fatal error: …".
bool placeless_error(std::string_view line, std::string_view* message) {
  for (std::string_view mark :
       {"<command-line>: fatal error: ", "g++: fatal error: ", "g++: error: ", "cc1plus: fatal error: ",
        "cc1plus: error: ", "cc1plus: all warnings being treated as errors"})
    if (line.substr(0, mark.size()) == mark) {
      *message = line.substr(mark.size());
      return true;
    }
  return false;
}

// "   12 |   int x = y;" or the line of carets below it.
bool source_line(std::string_view line) {
  const size_t bar = line.find(" |");
  return bar != std::string_view::npos && std::all_of(line.begin(), line.begin() + static_cast<long>(bar), [](char c) {
           return c == ' ' || std::isdigit(static_cast<unsigned char>(c)) != 0;
         });
}

// "cpp_sources[0]: In function ‘…’:": where the error is, not what it says.
bool names_function(std::string_view line) {
  return !line.empty() && line.back() == ':' &&
         (line.find(": In ") != std::string_view::npos || line.find(": At ") != std::string_view::npos) &&
         line.find("In instantiation of") == std::string_view::npos &&
         line.find("In substitution of") == std::string_view::npos;
}

// The quoted parts of a message, in order.
std::vector<std::string> quoted_parts(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < text.size();) {
    const bool wide = text.substr(i, kOpen.size()) == kOpen;
    if (!wide && text[i] != '\'') {
      ++i;
      continue;
    }
    const size_t begin = i + (wide ? kOpen.size() : 1);
    const size_t end = wide ? text.find(kClose, begin) : text.find('\'', begin);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(begin, end - begin));
    i = end + (wide ? kClose.size() : 1);
  }
  return parts;
}

std::string last_word(std::string_view name) {
  size_t end = name.size();
  while (end > 0 && !word_part(name[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && word_part(name[begin - 1])) --begin;
  return std::string(name.substr(begin, end - begin));
}

// Words by which a message speaks of the headers rather than of the candidate's own code.
bool speaks_of_torch(std::string_view text) {
  constexpr std::array kMarks = {"at::",     "c10::",   "torch::",     "caffe2::", "pybind11::", "kz::",   "py::",
                                 "Tensor",   "Scalar",  "kz_",         "KZ_",      "TORCH_",     "AT_",    "C10_",
                                 "PYBIND11", "module_", "extension.h", "/kz_gen/", "/headers/",  "/ATen/", "/c10/"};
  return std::any_of(kMarks.begin(), kMarks.end(),
                     [&](const char* m) { return text.find(m) != std::string_view::npos; });
}

// What the lexer or the parser says before it has looked up a name: names that mean something to the parser (types,
// templates, macros) and that only the real headers have would have been an error themselves, earlier, or the source
// would have been compiled with the real headers from the start (needs_full).
bool only_parsed(std::string_view message) {
  constexpr std::array kStarts = {"expected ",
                                  "stray ",
                                  "missing terminating ",
                                  "unterminated ",
                                  "'else' without ",
                                  "a function-definition is not allowed here",
                                  "break statement not within ",
                                  "continue statement not within ",
                                  "extended character ",
                                  "exponent has no digits",
                                  "unable to find numeric literal operator ",
                                  "invalid suffix "};
  if (std::none_of(kStarts.begin(), kStarts.end(),
                   [&](std::string_view m) { return message.substr(0, m.size()) == m; }))
    return false;
  // What only the lexer says is about characters, and macros' names are the same in both.
  if (message.rfind("expected ", 0) != 0) return true;
  // A macro of torch's in the place where something was expected.
  constexpr std::array kMacros = {"TORCH_", "AT_", "C10_", "PYBIND11", "KZ_", "kz_", "__"};
  return std::none_of(kMacros.begin(), kMacros.end(),
                      [&](const char* m) { return message.find(m) != std::string_view::npos; });
}

bool own_file(const std::string& file);

// Twice the same name in one scope, both of the source: an error whatever its types are.
bool declared_twice(const Diagnostic& d) {
  const bool twice =
      d.message.rfind("redeclaration of ", 0) == 0 || d.message.rfind("conflicting declaration ", 0) == 0;
  if (!twice) return false;
  bool noted = false;
  for (const std::string& line : split(d.notes, '\n')) {
    std::string file;
    int number = 0;
    std::string_view severity, message;
    if (!parse_head(line, &file, &number, &severity, &message)) continue;
    if (!own_file(file) || message.find("in expansion of macro") != std::string_view::npos) return false;
    noted = noted || message.rfind("previous declaration", 0) == 0 ||
            message.find("previously declared here") != std::string_view::npos;
  }
  return noted;
}

// at::Tensor and a number do not become each other, with either headers (a test of src/headers/corpus holds that).
bool tensor_and_number(const std::string& message) {
  constexpr std::array kNumbers = {"float", "double",    "int",          "long int",         "int64_t", "bool",
                                   "char",  "size_t",    "float*",       "const float*",     "double*", "const double*",
                                   "int*",  "short int", "unsigned int", "long unsigned int"};
  const auto number = [&](const std::string& type) {
    const std::string bare = type.substr(0, type.find(" {aka "));
    return std::find(kNumbers.begin(), kNumbers.end(), bare) != kNumbers.end();
  };
  const auto tensor = [](const std::string& type) {
    return type == "at::Tensor" || type == "torch::Tensor" || type == "torch::Tensor {aka at::Tensor}" ||
           type == "const at::Tensor" || type == "const Tensor" || type == "Tensor";
  };
  const std::vector<std::string> types = quoted_parts(message);
  const bool to_number =
      message.rfind("cannot convert ", 0) == 0 && types.size() >= 2 && tensor(types[0]) && number(types[1]);
  const bool from_number = message.rfind("conversion from ", 0) == 0 &&
                           message.find(" to non-scalar type ") != std::string::npos && types.size() == 2 &&
                           number(types[0]) && tensor(types[1]);
  return to_number || from_number;
}

constexpr std::array<std::string_view, 3> kRealMacros = {"AT_", "TORCH_", "C10_"};

bool own_file(const std::string& file) { return file.rfind("cpp_sources[", 0) == 0 || file == "functions"; }

bool has_any(std::string_view text, std::initializer_list<std::string_view> phrases) {
  return std::any_of(phrases.begin(), phrases.end(), [&](auto p) { return text.find(p) != std::string_view::npos; });
}

}  // namespace

bool first_error(std::string_view output, Diagnostic* diagnostic) {
  bool found = false;
  std::string pending;  // lines since the last head: they lead to the next one
  for (const std::string& line : split(output, '\n')) {
    std::string file;
    int number = 0;
    std::string_view severity, message;
    const bool head = parse_head(line, &file, &number, &severity, &message);
    if (!found) {
      if (head && is_error(severity)) {
        found = true;
        *diagnostic = {std::move(file), number, std::string(message), pending, ""};
      } else if (placeless_error(line, &message)) {
        found = true;
        *diagnostic = {"cc1plus", 0, std::string(message), "", ""};
      } else {
        // What a warning printed is not part of the error that follows; "In file included from" is.
        if (head || line.rfind("In file included from", 0) == 0) pending.clear();
        if (!head && !source_line(line) && !names_function(line)) pending += line + "\n";
      }
      continue;
    }
    if ((head && severity != "note") || names_function(line) || line.rfind("In file included from", 0) == 0) break;
    (source_line(line) ? diagnostic->shown : diagnostic->notes) += line + "\n";
  }
  return found;
}

namespace {

// Whether all that is said of torch beside an error is that it stands in an argument of its macros. Those of the slim
// headers are the real ones, but for PYBIND11_MODULE.
bool only_in_real_macros(const std::string& notes) {
  for (const std::string& line : split(notes, '\n')) {
    if (!speaks_of_torch(line)) continue;
    const bool expansion = has_any(line, {"note: in expansion of macro ", "note: in definition of macro "});
    const auto names = quoted_parts(line.substr(line.find("note: ") == std::string::npos ? 0 : line.find("note: ")));
    if (!expansion || names.empty()) return false;
    if (std::none_of(kRealMacros.begin(), kRealMacros.end(),
                     [&](std::string_view m) { return names[0].rfind(m, 0) == 0; }))
      return false;
  }
  return true;
}

}  // namespace

std::string fault_of(std::string_view output) {
  Diagnostic first;
  if (!first_error(output, &first)) {
    const bool tools = has_any(output, {"collect2: fatal error: cannot find"});
    const bool linker = has_any(output, {"ld returned", "mold: ", "ld: error: "});
    return tools ? "toolchain" : linker ? "link_error" : "compile_error";
  }
  const bool nowhere = first.line == 0 && first.file == "cc1plus";  // see placeless_error
  const bool ours = has_any(first.message, {"kz_unit.h", "torch/extension.h", "/kz/", "cannot execute", "cannot find",
                                            "installation problem", "main.cpp: No such file", "error reading"});
  return nowhere && ours ? "toolchain" : "compile_error";
}

std::string doubt(const Diagnostic& first, const Mentions& mentions, const Kit& kit) {
  const std::string& message = first.message;
  // A name of the source by which something could be meant that only the real headers have.
  const auto& names_of_others = mentions.bases ? mentions.words : mentions.reached;
  const auto only_real = std::find_if(names_of_others.begin(), names_of_others.end(),
                                      [&](const auto& w) { return w.size() > 1 && kit.missing.has(w); });
  if (mentions.unclosed && only_real == names_of_others.end()) return "";
  if (!own_file(first.file)) return "an error outside the source: " + first.file;
  const std::string said = message + "\n" + first.notes;
  // The folders of a slim build hold all that those of a full one do; what lacks torch's own headers was found out
  // before (needs_full).
  if (has_any(message, {"No such file or directory"}) && first.notes.find("In file included from") == std::string::npos)
    return "";

  if (declared_twice(first) && only_real == names_of_others.end()) return "";

  // An error that comes out of an expansion or a template of torch's is about what it does there.
  const std::vector<std::string> names = quoted_parts(message);
  const bool inside = speaks_of_torch(first.notes);
  const bool plain_place = !inside || only_in_real_macros(first.notes);
  if (plain_place && only_parsed(message)) return "";
  if (plain_place && message.find("was not declared in this scope") != std::string::npos && !names.empty() &&
      !kit.real.has(last_word(names[0])))
    return "";
  if (inside) return "an error inside torch's templates or macros";
  const bool undeclared =
      has_any(message, {"was not declared in this scope", "has not been declared", "does not name a type",
                        "is not a member of", "has no member named", "was not declared", "there are no arguments to"});
  if (undeclared && !names.empty()) {
    const bool member = message.find("has no member named") != std::string::npos && names.size() > 1;
    const std::string name = last_word(member ? names[1] : names.front());
    if (!name.empty() && !kit.real.has(name)) return "";
    const bool of_tensor = member && (names[0] == "class at::Tensor" || names[0] == "const class at::Tensor");
    if (of_tensor && !kit.tensor.has(name)) return "";
    const bool alone = message.find("was not declared in this scope") != std::string::npos ||
                       message.find(name + "' does not name a type") != std::string::npos;
    const bool plain = alone && names.front() == name && mentions.opened.empty() && !mentions.bases;
    const bool called =
        first.shown.find(name + "(") != std::string::npos || first.shown.find(name + " (") != std::string::npos;
    if (plain && !called && !kit.global.has(name)) return "";
    return "the name " + name;
  }
  if (tensor_and_number(message) && only_real == names_of_others.end()) return "";
  if (speaks_of_torch(said)) return "a message about torch's types";
  if (only_real != names_of_others.end()) return "a message beside the name " + *only_real;
  return "";
}

std::string clean_log(std::string_view output, const std::vector<std::string>& folders, size_t limit) {
  std::string log;
  for (std::string line : split(output, '\n')) {
    bool ours = line.find("kz_unit.h") != std::string::npos;
    for (const std::string& folder : folders) {
      for (size_t at = line.find(folder); !folder.empty() && at != std::string::npos; at = line.find(folder, at)) {
        line.erase(at, folder.size());
        ours = true;
      }
    }
    const bool includes = line.rfind("In file included from", 0) == 0 || line.rfind("                 from ", 0) == 0;
    if (ours && includes) continue;
    if (log.size() + line.size() + 1 > limit) {
      log += "… (more was said)\n";
      break;
    }
    log += line + "\n";
  }
  while (log.size() > 1 && log[log.size() - 1] == '\n' && log[log.size() - 2] == '\n') log.pop_back();
  return log == "\n" ? "" : log;
}

}  // namespace kz::keck
