// The kit of the slim headers (src/headers/kit/make_kit.py): the shim, the generated declarations and what is known of
// the real headers' names. Found beside our shared objects, else made in the state folder, once a torch, Python and
// g++.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/files.h"
#include "base/layout.h"

namespace kz::keck {

// A set of words over the text of one file.
class WordList {
 public:
  static Result<WordList> load(const fs::path& file);
  bool has(std::string_view word) const { return words_.count(word) != 0; }
  size_t size() const { return words_.size(); }

 private:
  std::unique_ptr<std::string> text_;  // what the views point into
  std::unordered_set<std::string_view> words_;
};

struct Kit {
  fs::path dir;
  std::string key;       // of torch, Python, g++ and our headers
  std::string host_key;  // of torch, Python and g++
  std::string slim_key;  // of these and of what a slim build sees
  std::string torch, python, compiler_version;
  fs::path torch_include;   // …/torch/include
  fs::path python_include;  // with Python.h, or a path that does not exist
  WordList real, missing, global, conflict,
      brought,    // see vocabulary.py; brought: torch headers of <torch/extension.h>
      tensor;     // names that at::Tensor's classes may have as members
  fs::path slim;  // folder with torch/extension.h

  fs::path shim() const { return dir / "libkz_shim.so"; }
  fs::path precompile_plugin() const { return dir / "precompile.so"; }
};

// Takes seconds (and 45 CPU-seconds) when the kit must be made. Error "toolchain" says what is missing.
Result<Kit> find_or_make_kit(const Layout& layout, const std::string& compiler);

}  // namespace kz::keck
