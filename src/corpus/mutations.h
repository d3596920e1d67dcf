// What is done to a right candidate to make a wrong one, as tables of text replacements.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kz::corpus {

using Replacements = std::vector<std::pair<std::string, std::string>>;  // first occurrence of each

// Placeholders: those of the family's code, and {X}: a scalar that is neither {A} nor {B}.
struct Mutation {
  std::string name, family;
  Replacements candidate;
  std::string outcome = "fail", stage = "compare", reason = "wrong_values";
  bool composed = true;      // also behind another operator
  bool ragged = false;       // needs a width that is no power of two
  Replacements module = {};  // other inputs, on which the fault shows
};

std::vector<Mutation> cpp_mutations();
std::vector<Mutation> triton_mutations();

// Faults of the Python around a kernel: the same for both backends.
std::vector<Mutation> wrapper_mutations(const std::string& call);  // "kernel.forward(x)": what ModelNew returns

}  // namespace kz::corpus
