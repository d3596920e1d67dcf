// A chain as one fused C++ function: each row of x is brought into a buffer v, the operators are applied to it in turn,
// and it is written out. `n` is the present width, so an operator's code does not depend on what stands before it.
#include "base/text.h"
#include "corpus/chain.h"
#include "corpus/text_parts.h"

namespace kz::corpus {
namespace {

std::string indent(const std::string& code) {
  std::string out;
  for (const std::string& line : split(code, '\n')) out += "    " + line + "\n";
  return out;
}

std::string output_width(const Chain& chain) {
  std::string width = "W";
  for (const Operator& op : chain.operators) {
    if (op.family->kind == Kind::kHalf) width += " / 2";
    if (op.family->kind == Kind::kReduce) width = "1";
    if (op.family->kind == Kind::kWeight) width = "D";
  }
  return width;
}

}  // namespace

std::string cpp_text(const Chain& chain) {
  std::string parameters, pointers, arguments, body;
  for (const Operator& op : chain.operators) {
    body += indent(fill(op.family->cpp[op.style].code, op));
    if (op.input.empty()) continue;
    parameters += kCppInput + op.input;
    pointers += kCppPointer + op.input + "p = " + op.input + kCppPointerEnd;
    arguments += ", " + op.input;
  }
  std::string sizes = kCppSizes;
  if (const Operator* weight = chain.weight())
    sizes += kCppWidth + weight->input + (weight->family->name == "linear" ? kCppWeightRows : kCppWeightColumns);
  return kCppHead + parameters + sizes + kCppOutput + output_width(chain) + kCppPointers + pointers + kCppRows + body +
         kCppTail + (chain.fast_math ? kCppFastMath : "") + kCppModel + arguments + kCppCall + arguments + ")\n";
}

}  // namespace kz::corpus
