// The generator of this program: one model in memory, sampled in batches with a KV cache. No torch in this header.
// On the CPU a completion depends on its prompt, its seed and the weights alone, bit for bit, whatever else is in the
// batch and whatever the number of threads. On CUDA the kernels that cuBLAS picks depend on the batch's size, so a
// completion repeats bit for bit only with the same batch.
#pragma once

#include <memory>
#include <string>

#include "lm/generator.h"
#include "lm/model_config.h"
#include "lm/tokenizer.h"

namespace kz::lm {

struct EngineOptions {
  std::string device = "cpu";  // "cpu" | "cuda" | "cuda:N"
  std::string dtype = "auto";  // "fp32" | "bf16"; auto: fp32 on the CPU, bf16 on CUDA
  int threads = 0;             // CPU decode threads; 0: as many as set_threads() was told, else all cores
  int max_batch = 0;           // sequences decoded at once; 0: 64 a thread on the CPU, 1024 on CUDA
};

struct EngineStats {  // since the engine was made
  uint64_t sequences = 0, prompt_tokens = 0, prefilled_tokens = 0, sampled_tokens = 0;
  double seconds = 0;
};

class Engine : public Generator {
 public:
  // A Hugging Face folder: config.json, model.safetensors (or its index), tokenizer.json.
  static Result<std::shared_ptr<Engine>> open(const fs::path& folder, const EngineOptions& options = {});

  virtual const ModelConfig& config() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  virtual EngineStats stats() const = 0;
};

// Threads for torch's own kernels (training, CUDA host work) and the default number of decode threads. 0: all cores.
// Call it before the first model is made.
void set_threads(int n);
int threads();

}  // namespace kz::lm
