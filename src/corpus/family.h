// corpus: operator families and what is made of them: modules, right kernels for them, splits, tasks, the nano
// tokenizer. A family is one operator in all its Torch spellings, with its lowering to C++ and to Triton. Modules are
// chains of operators over the rows of x [N, W] (float32), so an operator's code is the same wherever it stands in a
// chain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kz::corpus {

enum class Kind {
  kUnary,   // elementwise, no parameter
  kScalar,  // elementwise, one or two scalar parameters
  kRow,     // [N, W] -> [N, W] along the row
  kHalf,    // [N, W] -> [N, W / 2]
  kReduce,  // [N, W] -> [N, 1]; ends a chain
  kBinary,  // with a second input [N, W]
  kVector,  // with a second input [W]
  kWeight,  // [N, W] -> [N, D] with a weight input
};

// One way of writing an operator's code. Placeholders: {A} {B} scalars, {I} an integer, {a} the further input's name.
struct Lowering {
  std::string style;  // "main", or what the other does: "recompute", "closed_form"
  std::string code;   // statements; indentation is added by the lowering
};

// How the operator is written in `forward`. Placeholders as above, and {W}: the width of x at that place.
struct Spelling {
  std::string form;  // "torch.relu", "F.relu", "nn.ReLU", "x.relu": the token before the parenthesis
  std::string args;  // inside the parentheses: "x", "x, {A}", "" for a module without arguments
};

// What an operator is, in double precision, on one row: keeps modules well-conditioned, and judges the lowerings in
// tests.
struct Arguments {
  double a = 0, b = 0;            // {A} {B} as numbers, signs as in the code
  int i = 0;                      // {I}
  const double* other = nullptr;  // the further input: this row's part [W], the vector [W], or the weight
  int d = 0;                      // output width of kWeight
};
using Reference = void (*)(std::vector<double>& row, const Arguments& arguments);

struct Family {
  std::string name;  // "softmax"
  std::string api;   // canonical API name, an entry of the catalogue
  Kind kind = Kind::kUnary;
  std::vector<Spelling> spellings;
  std::vector<Lowering> cpp, triton;  // the first is the main style; a second one differs in speed
  Reference reference = nullptr;
  // Of its lowerings, beside that of one rounding: what they lose where a sum cancels, as exp(v) - 1 near zero.
  double absolute_error = 0;
  bool positive_input = false;   // takes only values >= 0
  bool positive_output = false;  // gives only values >= 0
};

const std::vector<Family>& families();
const Family* find_family(std::string_view name);  // null when unknown
std::vector<std::string> family_names();
std::vector<std::string> apis_of(const std::vector<std::string>& families);  // canonical, sorted, no doubles

}  // namespace kz::corpus
