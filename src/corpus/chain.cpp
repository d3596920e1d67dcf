#include "corpus/chain.h"

#include <algorithm>

namespace kz::corpus {
namespace {

// Cells of x: enough for a fast and a slow kernel to differ measurably, few enough for a verdict to be cheap.
constexpr int kMinCells = 16384, kMaxCells = 65536;
constexpr int kMaxWeightSide = 128;  // a weight's tile must fit into one Triton program
constexpr int kMaxInputs = 3;

bool has_input(Kind kind) { return kind == Kind::kBinary || kind == Kind::kVector || kind == Kind::kWeight; }

std::vector<int> up_to(const std::vector<int>& values, int limit) {
  std::vector<int> some;
  for (int value : values)
    if (value <= limit) some.push_back(value);
  return some;
}

}  // namespace

const std::vector<std::string>& scalar_texts() {
  static const std::vector<std::string> texts = {"0.1", "0.2", "0.3", "0.4", "0.6", "0.7", "0.8", "0.9",
                                                 "1.1", "1.2", "1.3", "1.4", "1.6", "1.7", "1.8"};
  return texts;
}

const std::vector<int>& row_counts() {
  static const std::vector<int> counts = {64, 96, 128, 192, 256};
  return counts;
}

const std::vector<int>& widths() {
  static const std::vector<int> sizes = {64, 96, 128, 160, 192, 256, 320, 384, 512};
  return sizes;
}

const std::vector<int>& shifts() {
  static const std::vector<int> values = {3, 5, 7, 9, 11};
  return values;
}

const Operator* Chain::weight() const {
  for (const Operator& op : operators)
    if (op.family->kind == Kind::kWeight) return &op;
  return nullptr;
}

bool fits(const std::vector<const Family*>& chain) {
  int weights = 0, halves = 0, inputs = 0;
  for (size_t i = 0; i < chain.size(); ++i) {
    const Kind kind = chain[i]->kind;
    if (kind == Kind::kReduce && i + 1 < chain.size()) return false;
    if (std::count(chain.begin(), chain.end(), chain[i]) > 1) return false;
    if (chain[i]->positive_input && i > 0 && !chain[i - 1]->positive_output) return false;
    weights += kind == Kind::kWeight;
    halves += kind == Kind::kHalf;
    inputs += has_input(kind);
  }
  return !chain.empty() && weights <= 1 && halves <= 1 && inputs <= kMaxInputs;
}

Chain draw_chain(Rng& rng, const std::vector<const Family*>& families, double second_style) {
  Chain chain;
  const bool weighted =
      std::any_of(families.begin(), families.end(), [](const Family* f) { return f->kind == Kind::kWeight; });
  const std::vector<int> rows = up_to(row_counts(), weighted ? kMaxWeightSide : row_counts().back());
  const std::vector<int> sizes = up_to(widths(), weighted ? kMaxWeightSide : widths().back());
  do {
    chain.rows = rng.pick(rows);
    chain.width = rng.pick(sizes);
  } while (!weighted && (chain.rows * chain.width < kMinCells || chain.rows * chain.width > kMaxCells));
  chain.uniform_input = families.front()->positive_input;

  int width = chain.width;
  char next_input = 'a';
  for (const Family* family : families) {
    Operator op{.family = family, .spelling = rng.below(family->spellings.size())};
    op.a = rng.pick(scalar_texts());
    op.b = rng.pick(scalar_texts());
    op.i = rng.pick(shifts());
    if (has_input(family->kind)) op.input = std::string(1, next_input++);
    if (family->cpp.size() > 1 && rng.uniform() < second_style) op.style = 1 + rng.below(family->cpp.size() - 1);
    op.width_in = width;
    if (family->kind == Kind::kHalf) width /= 2;
    if (family->kind == Kind::kReduce) width = 1;
    if (family->kind == Kind::kWeight) width = rng.pick(sizes);
    op.width_out = width;
    chain.operators.push_back(std::move(op));
  }
  return chain;
}

std::vector<std::string> api_sequence(const Chain& chain) {
  std::vector<std::string> apis;
  for (const Operator& op : chain.operators) apis.push_back(op.family->api);
  return apis;
}

std::string style_text(const Chain& chain) {
  std::string text;
  for (const Operator& op : chain.operators)
    if (op.style > 0) text += (text.empty() ? "" : "+") + op.family->name + ":" + op.family->cpp[op.style].style;
  if (chain.fast_math) text += std::string(text.empty() ? "" : "+") + "fast_math";
  return text.empty() ? "main" : text;
}

std::string fill(std::string_view text, const Operator& op) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{' || i + 2 >= text.size() || text[i + 2] != '}') {
      out += text[i];
      continue;
    }
    switch (text[i + 1]) {
      case 'A':
        out += op.a;
        break;
      case 'B':
        out += op.b;
        break;
      case 'I':
        out += std::to_string(op.i);
        break;
      case 'W':
        out += std::to_string(op.width_in);
        break;
      case 'a':
        out += op.input;
        break;
      default:
        out += text.substr(i, 3);
        break;
    }
    i += 2;
  }
  return out;
}

}  // namespace kz::corpus
