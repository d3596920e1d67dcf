// A chain as one fused Triton kernel: a program holds a tile of 16 rows in v; lanes outside `mask` hold anything.
#include "base/text.h"
#include "corpus/chain.h"
#include "corpus/text_parts.h"

namespace kz::corpus {
namespace {

std::string output_width(const Chain& chain) {
  std::string width = "W";
  for (const Operator& op : chain.operators) {
    if (op.family->kind == Kind::kHalf) width += " // 2";
    if (op.family->kind == Kind::kReduce) width = "1";
    if (op.family->kind == Kind::kWeight) width = "D";
  }
  return width;
}

}  // namespace

std::string triton_text(const Chain& chain) {
  std::string pointers, signature, arguments, body;
  for (const Operator& op : chain.operators) {
    for (const std::string& line : split(fill(op.family->triton.front().code, op), '\n')) body += "    " + line + "\n";
    if (op.input.empty()) continue;
    pointers += op.input + kTritonPointer;
    signature += ", " + op.input;
    arguments += op.input + ", ";
  }
  const Operator* weight = chain.weight();
  std::string width, extra;
  if (weight) {
    width = kTritonWeightWidth + weight->input +
            (weight->family->name == "linear" ? kTritonWeightRows : kTritonWeightColumns);
    extra = kTritonWidth;
  }
  return kTritonHead + pointers + kTritonSizes + extra + kTritonLoad + body + kTritonTail + signature + kTritonShape +
         width + kTritonOutput + output_width(chain) + kTritonGrid + arguments + kTritonCall + extra + kTritonBlock +
         (weight ? "max(W, D)" : "W") + kTritonEnd;
}

}  // namespace kz::corpus
