// Test sources of src/headers/corpus: what they are, and what a build of them must come to.
#pragma once

#include <string>
#include <vector>

#include "keck/build/broker.h"

namespace kz::keck {

struct CorpusCase {
  BuildRequest request;
  std::string name;
  bool right = true;
  std::string headers;  // expected, or "" for any
  int line = 0;         // of the first message, 0 for any
  std::string error;    // part of the log
};

// The cases of one file; a right source's extension is called "kernel".
inline std::vector<CorpusCase> read_corpus(const fs::path& file, bool right) {
  std::vector<CorpusCase> cases;
  const std::string text = read_file(file).value();
  const std::string mark = "//==== ";
  const auto list = [](const std::string& value) {
    std::vector<std::string> parts;
    for (size_t at = 0; at < value.size();) {
      const size_t end = std::min(value.find(',', at), value.size());
      parts.push_back(value.substr(at, end - at));
      at = end + 1;
    }
    return parts;
  };
  // The first mark stands in the file's own explanation, indented.
  for (size_t at = text.find("\n" + mark); at != std::string::npos;) {
    const size_t head = at + 1 + mark.size();
    const size_t body = text.find('\n', head) + 1;
    const size_t next = text.find("\n" + mark, body);
    CorpusCase one;
    one.right = right;
    one.request.name = "kernel";
    one.request.backend = "cpp";
    one.request.cpp_sources = {text.substr(body, next == std::string::npos ? next : next + 1 - body)};
    const std::string line = text.substr(head, body - 1 - head);
    for (size_t i = 0, j = 0; i < line.size(); i = j + 1) {
      j = std::min(line.find(' ', i), line.size());
      const std::string part = line.substr(i, j - i);
      const size_t equal = part.find('=');
      const std::string key = part.substr(0, equal);
      const std::string value = equal == std::string::npos ? "" : part.substr(equal + 1);
      if (equal == std::string::npos) one.name = part;
      if (key == "functions") one.request.functions = list(value);
      if (key == "cflags") one.request.cflags = list(value);
      if (key == "headers") one.headers = value;
      if (key == "line") one.line = std::stoi(value);
      if (key == "error") one.error = value;
    }
    for (char& c : one.error) c = c == '+' ? ' ' : c;
    cases.push_back(std::move(one));
    at = next;
  }
  return cases;
}

}  // namespace kz::keck
