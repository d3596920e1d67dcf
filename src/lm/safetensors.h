// safetensors: named tensors in one file, read by mmap with every offset checked, written atomically. No torch in this
// header.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"

namespace kz::lm {

enum class Dtype { kF32, kF16, kBF16, kI64, kI32, kU8 };
size_t dtype_size(Dtype dtype);
const char* dtype_name(Dtype dtype);  // as the format spells it: "F32"

struct TensorView {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // row-major; valid while its WeightFile lives
};

// One file, or the shards that model.safetensors.index.json names. Error "weights": one line with file, tensor and
// remedy.
class WeightFile {
 public:
  // `path`: a .safetensors file, an index, or a folder that holds model.safetensors or the index.
  static Result<WeightFile> open(const fs::path& path);
  WeightFile(WeightFile&&) noexcept;
  WeightFile& operator=(WeightFile&&) noexcept;
  ~WeightFile();

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  Result<TensorView> get(const std::string& name) const;
  const std::string& where() const { return where_; }

 private:
  WeightFile() = default;
  Status add_shard(const fs::path& file);
  struct Mapping;
  std::vector<std::unique_ptr<Mapping>> shards_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
  std::string where_;
};

struct TensorOut {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};
// The same tensors give the same bytes. Replaced atomically: a kill leaves the old file or the new one.
Status write_safetensors(const fs::path& path, const std::vector<TensorOut>& tensors,
                         const std::map<std::string, std::string>& metadata = {});

}  // namespace kz::lm
