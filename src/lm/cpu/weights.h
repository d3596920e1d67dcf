// A model's weights in the layout that the CPU kernels read. No torch here.
#pragma once

#include <memory>
#include <vector>

#include "lm/cpu/kernels.h"
#include "lm/model_config.h"
#include "lm/rope.h"

namespace kz::lm::cpu {

// Row-major fp32, as the trainer holds them; every matrix is [outputs, inputs].
struct RawLayer {
  const float *norm1, *qkv, *qkv_bias, *out, *norm2, *gate_up, *down;  // qkv_bias may be null
};
struct RawWeights {
  const float* embedding = nullptr;  // [vocab, hidden]
  const float* head = nullptr;       // null: the embedding
  const float* norm = nullptr;
  std::vector<RawLayer> layers;
};

struct PackedLayer {
  const float *norm1, *norm2;
  Panels qkv, out, gate_up, down;
};

class PackedModel {
 public:
  PackedModel(const ModelConfig& config, const RawWeights& raw, std::shared_ptr<const RopeTable> rope);
  void embed(int32_t token, float* out) const;

  const ModelConfig config;
  std::vector<PackedLayer> layers;
  Panels head;
  const float* norm = nullptr;
  std::shared_ptr<const RopeTable> rope;

 private:
  struct Free {
    void operator()(float* p) const;
  };
  float* take(int64_t floats);
  const float* copy(const float* from, int64_t n, int64_t room);
  Panels pack(const float* matrix, const float* bias, int64_t n, int64_t k);

  std::unique_ptr<float[], Free> storage_;
  float* next_ = nullptr;
  const float* embedding_ = nullptr;  // null: read from the head's panels
};

}  // namespace kz::lm::cpu
