// Rows of tokens as padded micro-batches: rows of like length together, so that little is padding. Torch is visible
// here.
#pragma once

#include <vector>

#include "lm/torch.h"
#include "train/trainer.h"

namespace kz::train {

// A row as training needs it, wherever it is kept.
struct RowView {
  const std::vector<int32_t>* prompt = nullptr;
  const std::vector<int32_t>* answer = nullptr;
  int64_t size() const { return static_cast<int64_t>(prompt->size() + answer->size()); }
};

// B rows of at most T + 1 tokens. Answer tokens of all rows follow each other, in the order of `rows`: n in all.
struct MicroBatch {
  std::vector<size_t> rows;  // indices into the rows that were given
  at::Tensor ids;            // [B, T] int64: each row without its last token, padded on the right
  at::Tensor places;         // [n] into B * T: where each answer token is predicted
  at::Tensor targets;        // [n] the answer tokens
  int64_t tokens = 0;        // without padding
  int64_t answer_tokens = 0;
};

// Cuts `order` (indices into rows) into micro-batches of at most `micro_tokens` padded tokens, at least one row each.
// The same rows give the same batches.
std::vector<std::vector<size_t>> plan_micro_batches(const std::vector<RowView>& rows, std::vector<size_t> order,
                                                    int64_t micro_tokens);
MicroBatch make_micro_batch(const std::vector<RowView>& rows, const std::vector<size_t>& indices,
                            const at::Device& device);

// Error "train" with the row's number for tokens outside the vocabulary, an empty prompt or answer, or a row that is
// too long.
Status check_rows(const std::vector<RowView>& rows, const lm::ModelConfig& config);

}  // namespace kz::train
