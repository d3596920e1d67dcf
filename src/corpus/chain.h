// A module as data: the operators in order, with their constants and shapes. Module text and kernels are written from
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "corpus/family.h"

namespace kz::corpus {

struct Operator {
  const Family* family = nullptr;
  size_t spelling = 0;
  std::string a, b;   // {A} {B}: numbers as text, of number_tokens()
  int i = 0;          // {I}
  std::string input;  // {a}: name of the further input, "" for none
  int width_in = 0, width_out = 0;
  size_t style = 0;  // of family->cpp
};

struct Chain {
  int rows = 0, width = 0;     // of x
  bool uniform_input = false;  // x from torch.rand instead of torch.randn
  bool fast_math = false;      // `cpp`: compiled with -ffast-math
  std::vector<Operator> operators;

  int width_out() const { return operators.empty() ? width : operators.back().width_out; }
  const Operator* weight() const;  // the operator with a weight, at most one
};

// The numbers that modules are written with; the tokenizer holds each as one token.
const std::vector<std::string>& scalar_texts();  // "0.1" … "1.8", without 0.5 and 1.0, which kernels use
const std::vector<int>& row_counts();
const std::vector<int>& widths();  // of x and of weights; glu halves them
const std::vector<int>& shifts();

// Whether these families can follow each other: reductions last, at most one weight, one glu and three inputs, none
// twice.
bool fits(const std::vector<const Family*>& chain);

// Draws constants, spellings, sizes and styles. The order of the families must fit.
Chain draw_chain(Rng& rng, const std::vector<const Family*>& chain, double second_style);

// Whether the module makes a sound task: finite, of ordinary magnitude, no operator idle, not constant, and rounding
// errors stay small. Evaluated in double precision on a few rows drawn from `rng`.
bool is_sound(Rng& rng, const Chain& chain);

std::vector<std::string> api_sequence(const Chain& chain);
std::string module_text(const Chain& chain);
std::string cpp_text(const Chain& chain);
std::string triton_text(const Chain& chain);
std::string style_text(const Chain& chain);  // "main" or "softmax:recompute+…"

// Fills the placeholders of a family's code or spelling.
std::string fill(std::string_view text, const Operator& op);

}  // namespace kz::corpus
