// What g++ said of a failed build, and whether the slim headers can be to blame (keck.md, part 4).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keck/build/kit.h"
#include "keck/build/source.h"

namespace kz::keck {

// The first error of a compiler's output with the lines that belong to it.
struct Diagnostic {
  std::string file;  // "cpp_sources[0]", "functions", a header's path; "" for the linker
  int line = 0;
  std::string message;  // one line, after "error: "
  std::string notes;    // what leads to it and follows it: includes, instantiations, expansions, notes
  std::string shown;    // the lines of source that g++ shows with it
};

// False when the output holds no error of the compiler (then the linker failed, or nothing did).
bool first_error(std::string_view output, Diagnostic* diagnostic);

// Whose fault a failed compilation is that no limit ended: "compile_error", "link_error", or "toolchain" when the
// compiler seems to speak of our own files or not to find its parts (a source can make the assembler print that too).
std::string fault_of(std::string_view output);

// Why a slim build's first error must be looked at with the real headers, or "" when it is final: it can't come from
// the slim headers. Final are
//   - an undeclared or unknown name that is nowhere in the real headers;
//   - a name that is not among the members of at::Tensor's classes, asked of a tensor;
//   - an undeclared name or type that they don't have at global scope or as a macro, when the source opens no namespace
//     of theirs, has no class with bases and does not call it (a call could be found by its arguments);
//   - what the lexer says, and what the parser expected, unless in a macro of torch's;
//   - whatever was said of a source whose braces don't close, when no directive of its own holds braces;
//   - a name declared twice by the source, a tensor in a number's place, a header that is nowhere;
//   - any message that names nothing of torch's, in a source that reaches for no name which only the real headers have.
// A later error may follow from something that slim lacks, so it says nothing.
std::string doubt(const Diagnostic& first, const Mentions& mentions, const Kit& kit);

// The output as a candidate may see it: our folders and the way by which our headers were included are gone; at most
// `limit` bytes, whole lines.
std::string clean_log(std::string_view output, const std::vector<std::string>& folders, size_t limit = 16384);

}  // namespace kz::keck
