// The shape of a model: what Hugging Face keeps in config.json. No torch in this header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"

namespace kz::lm {

struct ModelConfig {
  std::string architecture = "qwen2";  // "qwen2" only, for now
  int64_t vocab = 0;                   // rows of the embedding
  int64_t hidden = 0;                  // d
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;      // divides heads
  int64_t head_dim = 0;      // even; hidden / heads unless config.json says otherwise
  int64_t intermediate = 0;  // width of the gated MLP
  int64_t max_positions = 0;
  double rope_theta = 10000.0;
  double rms_eps = 1e-6;
  bool tie_embeddings = true;
  bool qkv_bias = true;
  std::vector<int32_t> eos;  // tokens that end a completion
  int32_t pad = 0;

  int64_t parameters() const;
};

// From a Hugging Face folder: config.json, with the end tokens of generation_config.json where it has some. Error
// "model" for an architecture, activation or rope scaling that this program does not run; the message names the file
// and the field.
Result<ModelConfig> load_model_config(const fs::path& folder);
Result<ModelConfig> parse_model_config(const Json& json, std::string_view where);
Json model_config_json(const ModelConfig& config);  // what load_model_config reads back

// A small model for CPUs: heads of 32, one key-value head for every two heads, MLP of about 8/3 d. `hidden` is a
// multiple of 64.
ModelConfig nano_config(int64_t vocab, int64_t hidden, int64_t layers, int32_t eos, int64_t max_positions = 1024);

}  // namespace kz::lm
