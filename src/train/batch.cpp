#include "train/batch.h"

#include <algorithm>

namespace kz::train {

std::vector<std::vector<size_t>> plan_micro_batches(const std::vector<RowView>& rows, std::vector<size_t> order,
                                                    int64_t micro_tokens) {
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rows[a].size() > rows[b].size(); });
  std::vector<std::vector<size_t>> plan;
  int64_t width = 0;
  for (const size_t i : order) {
    if (plan.empty() || static_cast<int64_t>(plan.back().size() + 1) * width > micro_tokens) {
      plan.emplace_back();
      width = rows[i].size() - 1;  // the longest of its batch comes first
    }
    plan.back().push_back(i);
  }
  return plan;
}

MicroBatch make_micro_batch(const std::vector<RowView>& rows, const std::vector<size_t>& indices,
                            const at::Device& device) {
  MicroBatch out;
  out.rows = indices;
  int64_t width = 0;
  for (const size_t i : indices) {
    width = std::max(width, rows[i].size() - 1);
    out.tokens += rows[i].size();
    out.answer_tokens += static_cast<int64_t>(rows[i].answer->size());
  }
  const auto count = static_cast<int64_t>(indices.size());
  const auto options = at::TensorOptions().dtype(at::kLong).pinned_memory(device.is_cuda());
  at::Tensor ids = at::zeros({count, width}, options);
  at::Tensor places = at::empty({out.answer_tokens}, options), targets = at::empty({out.answer_tokens}, options);
  auto* id = ids.data_ptr<int64_t>();
  auto* place = places.data_ptr<int64_t>();
  auto* target = targets.data_ptr<int64_t>();
  for (int64_t b = 0; b < count; ++b) {
    const RowView& row = rows[indices[static_cast<size_t>(b)]];
    const auto prompt = static_cast<int64_t>(row.prompt->size()), answer = static_cast<int64_t>(row.answer->size());
    std::copy(row.prompt->begin(), row.prompt->end(), id + b * width);
    std::copy(row.answer->begin(), row.answer->end() - 1, id + b * width + prompt);
    for (int64_t t = 0; t < answer; ++t) {
      *place++ = b * width + prompt + t - 1;
      *target++ = (*row.answer)[static_cast<size_t>(t)];
    }
  }
  out.ids = ids.to(device, /*non_blocking=*/true);
  out.places = places.to(device, true);
  out.targets = targets.to(device, true);
  return out;
}

Status check_rows(const std::vector<RowView>& rows, const lm::ModelConfig& config) {
  if (rows.empty()) return fail("train", "a step needs at least one row");
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string at = "row " + std::to_string(i) + " ";
    if (rows[i].prompt->empty() || rows[i].answer->empty())
      return fail("train", at + "has an empty prompt or answer; leave it out");
    if (rows[i].size() > config.max_positions) {
      return fail("train", at + "has " + std::to_string(rows[i].size()) + " tokens, the model " +
                               std::to_string(config.max_positions) + " positions; leave it out or cut it");
    }
    for (const std::vector<int32_t>* part : {rows[i].prompt, rows[i].answer}) {
      for (const int32_t token : *part) {
        if (token < 0 || token >= config.vocab) {
          return fail("train", at + "has token " + std::to_string(token) + ", the vocabulary ends at " +
                                   std::to_string(config.vocab - 1) + "; encode it with this model's tokenizer");
        }
      }
    }
  }
  return {};
}

}  // namespace kz::train
