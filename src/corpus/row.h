// Rows of the cold start and tasks of the evaluation: fresh ones without end, deterministic by seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "base/result.h"

namespace kz::corpus {

struct ChainOptions {
  std::vector<std::string> families;                     // empty: all
  std::vector<double> lengths = {0.25, 0.45, 0.2, 0.1};  // weights of chains of 1, 2, 3, … operators; at most 8
  std::vector<int> buckets;                              // of split.h that may be used; empty: the open ones
  double fast_math = 0.5;                                // share of `cpp` kernels compiled with -ffast-math
  double second_style = 0.5;  // share of operators lowered in their second style, where they have one
};

// A module without an answer: what the loop trains on and the evaluation asks.
struct Task {
  std::string id;                     // first 12 hex digits of the SHA-256 of the module
  std::string module;                 // KernelBench form
  std::string sequence;               // canonical API names in order, joined by '>'
  std::vector<std::string> apis;      // canonical, sorted, no doubles: the Proposer's list
  std::vector<std::string> families;  // in order
  std::string split;                  // "heldout" | "open"
};

// docs/architecture.md, part 3.
struct Row {
  std::string id;
  std::string family;                 // the family of the first operator in focus, see focus below
  std::vector<std::string> families;  // all, in order
  std::vector<std::string> apis;
  std::string sequence, backend, module, candidate, split;
  std::string style;  // "main", or the other styles used: "softmax:recompute+tanh:closed_form"
  Json verdict;       // null until Keck has judged it
};

Json to_json(const Row& row);
Json to_json(const Task& task);
Result<Row> row_from_json(const Json& json);

// Options that can't be met: error "corpus" (unknown family, no length that fits, an impossible split).
Status check_options(const ChainOptions& options);

// A fresh module. `focus` names a family that the chain must contain; empty: none. The modules are well-conditioned, no
// operator in them is idle, and their outputs depend on their inputs.
Result<Task> make_task(Rng& rng, const ChainOptions& options, const std::string& focus = "");

// A module with its kernel for `backend` ("cpp" | "triton").
Result<Row> make_row(Rng& rng, const ChainOptions& options, const std::string& backend, const std::string& focus = "");

// n tasks of held-out sequences, different sequences while there are enough, else different modules. options.buckets is
// ignored, lengths of one operator too.
Result<std::vector<Task>> make_heldout(size_t n, uint64_t seed, const ChainOptions& options);

}  // namespace kz::corpus
