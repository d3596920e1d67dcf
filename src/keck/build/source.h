// The text of one load_inline call: put together as torch puts it together, and looked at before anything is compiled.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "keck/build/broker.h"
#include "keck/build/kit.h"

namespace kz::keck {

// What a C++ source mentions, comments and literals left out.
struct Mentions {
  std::unordered_set<std::string> words;    // not those of #include
  std::unordered_set<std::string> reached;  // of these, where a name of another scope could be meant: a.X, a->X, a::X,
                                            // X(…), which is also looked up by its arguments, and X<…>
  std::vector<std::string> includes;        // the text between <> or ""
  std::unordered_set<std::string> tested;   // words in #if, #ifdef, #elif …
  std::unordered_set<std::string> opened;   // first word of each `using namespace X::…`
  bool computed_include = false;            // #include MACRO
  bool bases = false;                       // a class with bases, whose members are visible by their names alone
  bool unclosed = false;                    // braces that don't match, none of them in a directive
};

Mentions mentions_of(std::string_view source);

// The files that load_inline would write, after their implicit #include <torch/extension.h>: one of its sources joined
// by newlines, with the module of `functions`; of load's, each by itself. #line gives each source the name
// "cpp_sources[i]".
std::vector<std::string> units_of(const BuildRequest& request);
// Whether the source means the same with <torch/extension.h> before it: it includes it, after system headers only.
bool extension_comes_first(const std::string& source);
std::string source_name(size_t index);  // "cpp_sources[0]"

// Why the unit must be compiled with the real headers from the start, or "": it could mean something else with the slim
// ones. `forwarders` gets the torch headers that it includes and that <torch/extension.h> has brought already.
std::string needs_full(const Mentions& mentions, const Kit& kit, std::vector<std::string>* forwarders);

}  // namespace kz::keck
