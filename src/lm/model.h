// Qwen2 in memory: fp32 weights on one device, and its forward pass. Torch is visible here; others use lm/engine.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lm/model_config.h"
#include "lm/torch.h"

namespace kz::lm {

// Matrices are [outputs, inputs]. Query, key and value lie in one matrix, gate and up in another: fewer, larger
// products.
struct Layer {
  at::Tensor norm1, qkv, qkv_bias, out, norm2, gate_up, down;  // qkv_bias is undefined without biases
};

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

class Model {
 public:
  // Reads config.json and the weights of a Hugging Face folder.
  static Result<std::shared_ptr<Model>> load(const fs::path& folder, const at::Device& device);
  // Weights drawn from a seed, the same on every device.
  static std::shared_ptr<Model> random(const ModelConfig& config, uint64_t seed, const at::Device& device);

  // Hidden states [B, T, D] after the last norm for ids [B, T] (int64), padded on the right; computed in `dtype`.
  at::Tensor hidden(const at::Tensor& ids, at::ScalarType dtype) const;
  const at::Tensor& head() const { return head_.defined() ? head_ : embedding_; }  // [vocab, D]

  // Every trainable tensor, in a fixed order, under this program's own names ("layers.0.qkv").
  std::vector<NamedTensor> parameters() const;
  // The same under Hugging Face's names, query, key, value, gate and up apart: views of the weights.
  std::vector<NamedTensor> hugging_face() const;
  // Writes model.safetensors and config.json. dtype: kFloat or kBFloat16.
  Status save(const fs::path& folder, at::ScalarType dtype) const;

  // To be called after the weights were changed in place.
  void touch() { ++version_; }
  uint64_t version() const { return version_; }

  const ModelConfig& config() const { return config_; }
  const at::Device& device() const { return device_; }
  const at::Tensor& embedding() const { return embedding_; }
  const at::Tensor& norm() const { return norm_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const at::Tensor& rope_cos() const { return cos_; }  // [max_positions, h / 2]
  const at::Tensor& rope_sin() const { return sin_; }

 private:
  Model(const ModelConfig& config, const at::Device& device);
  ModelConfig config_;
  at::Device device_;
  at::Tensor embedding_, head_, norm_, cos_, sin_;  // head_ is undefined when tied
  std::vector<Layer> layers_;
  uint64_t version_ = 1;
};

// One tensor as raw bytes for write_safetensors; `keep` holds the memory.
struct TensorOut;
TensorOut tensor_out(const std::string& name, const at::Tensor& tensor, at::ScalarType dtype,
                     std::vector<at::Tensor>& keep);

// "cpu", "cuda", "cuda:1". Error "device" when there is no such device.
Result<at::Device> open_device(const std::string& name);
// "auto", "fp32", "bf16" for that device.
Result<at::ScalarType> compute_dtype(const std::string& name, const at::Device& device);

}  // namespace kz::lm
