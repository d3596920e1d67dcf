// The parts that families() is put together from, and the few shapes of code that many families share.
#pragma once

#include <vector>

#include "corpus/family.h"

namespace kz::corpus {

std::vector<Family> unary_families();
std::vector<Family> scalar_families();
std::vector<Family> row_families();
std::vector<Family> reduce_families();
std::vector<Family> input_families();

// {"torch.relu(x)", "nn.ReLU()"} -> spellings; the text before the first parenthesis is the form.
std::vector<Spelling> spell(const std::vector<std::string>& calls);

// The loop over the row buffer of a `cpp` candidate.
inline const std::string kLoop = "for (int j = 0; j < n; j++) ";

}  // namespace kz::corpus
