// One forward pass over rows of many sequences at once: prompt tokens and newly sampled ones alike. No torch here.
#pragma once

#include <span>
#include <vector>

#include "lm/cpu/weights.h"

namespace kz::lm::cpu {

// Pages of the KV cache for one thread, all of one size; given back pages are used again.
class PagePool {
 public:
  explicit PagePool(const ModelConfig& config);
  float* take();
  void give(float* page) { free_.push_back(page); }
  int64_t keys_at(int64_t layer, int64_t head) const { return (layer * kv_heads_ + head) * head_floats_; }
  int64_t values_at(int64_t layer, int64_t head) const { return keys_at(layer, head) + keys_floats_; }

 private:
  struct Free {
    void operator()(float* p) const;
  };
  int64_t kv_heads_, keys_floats_, head_floats_, page_floats_;
  std::vector<std::unique_ptr<float, Free>> slabs_;
  std::vector<float*> free_;
};

struct PageSpan {
  float* page = nullptr;
  int64_t count = 0;  // positions in use
};

struct Row {
  int32_t token = 0;
  int64_t position = 0;             // attends this many positions before it, and itself
  std::span<const PageSpan> spans;  // of its sequence, this row's own place included
  float* page = nullptr;            // where its key and value go
  int64_t slot = 0;
  bool logits = false;
};

class Forward {
 public:
  Forward(const PackedModel& model, const PagePool& pool) : model_(model), pool_(pool) {}
  // Rows of one sequence must be in order. Logits [flagged rows, vocab] are valid until the next call.
  void run(std::span<const Row> rows);
  const float* logits(int64_t flagged) const { return logits_.data() + flagged * model_.config.vocab; }

 private:
  void attention(std::span<const Row> rows, int64_t layer);
  const PackedModel& model_;
  const PagePool& pool_;
  std::vector<float> x_, normed_, qkv_, mixed_, gate_up_, active_, logits_, scores_;
  std::vector<PageRef> refs_;
};

}  // namespace kz::lm::cpu
