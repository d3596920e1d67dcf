#include "lm/model.h"

#include <dlfcn.h>

#include <cmath>

#include "base/random.h"
#include "lm/ops.h"
#include "lm/rope.h"
#include "lm/safetensors.h"

namespace kz::lm {

namespace {

at::ScalarType scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return at::kFloat;
    case Dtype::kF16:
      return at::kHalf;
    case Dtype::kBF16:
      return at::kBFloat16;
    case Dtype::kI64:
      return at::kLong;
    case Dtype::kI32:
      return at::kInt;
    case Dtype::kU8:
      return at::kByte;
  }
  return at::kFloat;
}

}  // namespace

Model::Model(const ModelConfig& config, const at::Device& device) : config_(config), device_(device) {
  const ModelConfig& c = config_;
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const auto make = [&](at::IntArrayRef shape) {
    return at::empty(shape, at::TensorOptions().dtype(at::kFloat).device(device_));
  };
  embedding_ = make({c.vocab, c.hidden});
  if (!c.tie_embeddings) head_ = make({c.vocab, c.hidden});
  norm_ = make({c.hidden});
  for (int64_t i = 0; i < c.layers; ++i) {
    layers_.push_back({make({c.hidden}), make({q + 2 * kv, c.hidden}), c.qkv_bias ? make({q + 2 * kv}) : at::Tensor(),
                       make({c.hidden, q}), make({c.hidden}), make({2 * c.intermediate, c.hidden}),
                       make({c.hidden, c.intermediate})});
  }
  RopeTable table(c.max_positions, c.head_dim, c.rope_theta);
  const auto upload = [&](std::vector<float>& v) {
    return at::from_blob(v.data(), {c.max_positions, c.head_dim / 2}, at::kFloat)
        .to(device_, at::kFloat, false, /*copy=*/true);
  };
  cos_ = upload(table.cos);
  sin_ = upload(table.sin);
}

std::vector<NamedTensor> Model::parameters() const {
  std::vector<NamedTensor> out{{"embedding", embedding_}};
  if (head_.defined()) out.push_back({"head", head_});
  out.push_back({"norm", norm_});
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& l = layers_[i];
    const std::string at = "layers." + std::to_string(i) + ".";
    out.push_back({at + "norm1", l.norm1});
    out.push_back({at + "qkv", l.qkv});
    if (l.qkv_bias.defined()) out.push_back({at + "qkv_bias", l.qkv_bias});
    out.push_back({at + "out", l.out});
    out.push_back({at + "norm2", l.norm2});
    out.push_back({at + "gate_up", l.gate_up});
    out.push_back({at + "down", l.down});
  }
  return out;
}

std::vector<NamedTensor> Model::hugging_face() const {
  const int64_t q = config_.heads * config_.head_dim, kv = config_.kv_heads * config_.head_dim,
                f = config_.intermediate;
  std::vector<NamedTensor> out{{"model.embed_tokens.weight", embedding_}, {"model.norm.weight", norm_}};
  if (head_.defined()) out.push_back({"lm_head.weight", head_});
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& l = layers_[i];
    const std::string at = "model.layers." + std::to_string(i) + ".";
    const auto attention = [&](const char* kind, const at::Tensor& fused) {
      out.push_back({at + "self_attn.q_proj." + kind, fused.narrow(0, 0, q)});
      out.push_back({at + "self_attn.k_proj." + kind, fused.narrow(0, q, kv)});
      out.push_back({at + "self_attn.v_proj." + kind, fused.narrow(0, q + kv, kv)});
    };
    attention("weight", l.qkv);
    if (l.qkv_bias.defined()) attention("bias", l.qkv_bias);
    out.push_back({at + "self_attn.o_proj.weight", l.out});
    out.push_back({at + "mlp.gate_proj.weight", l.gate_up.narrow(0, 0, f)});
    out.push_back({at + "mlp.up_proj.weight", l.gate_up.narrow(0, f, f)});
    out.push_back({at + "mlp.down_proj.weight", l.down});
    out.push_back({at + "input_layernorm.weight", l.norm1});
    out.push_back({at + "post_attention_layernorm.weight", l.norm2});
  }
  return out;
}

std::shared_ptr<Model> Model::random(const ModelConfig& config, uint64_t seed, const at::Device& device) {
  const at::NoGradGuard no_grad;
  std::shared_ptr<Model> model(new Model(config, device));
  uint64_t index = 0;
  for (const NamedTensor& p : model->parameters()) {
    Rng rng(derive_seed(seed, "init", index++));
    if (p.tensor.dim() == 1) {
      p.tensor.fill_(p.name.ends_with("bias") ? 0.0 : 1.0);
      continue;
    }
    // The embedding is small because it is the head as well; what feeds the residual stream shrinks with depth.
    double deviation = 1.0 / std::sqrt(static_cast<double>(p.tensor.size(1)));
    if (p.name == "embedding" || p.name == "head") deviation = 0.02;
    if (p.name.ends_with("out") || p.name.ends_with("down"))
      deviation /= std::sqrt(2.0 * static_cast<double>(config.layers));
    std::vector<float> values(static_cast<size_t>(p.tensor.numel()));
    for (float& v : values) v = static_cast<float>(deviation * rng.normal());
    p.tensor.copy_(at::from_blob(values.data(), p.tensor.sizes(), at::kFloat));
  }
  return model;
}

Result<std::shared_ptr<Model>> Model::load(const fs::path& folder, const at::Device& device) {
  const at::NoGradGuard no_grad;
  KZ_ASSIGN(const ModelConfig config, load_model_config(folder));
  KZ_ASSIGN(const WeightFile weights, WeightFile::open(folder));
  std::shared_ptr<Model> model(new Model(config, device));
  for (const NamedTensor& p : model->hugging_face()) {
    KZ_ASSIGN(const TensorView view, weights.get(p.name));
    if (at::IntArrayRef(view.shape) != p.tensor.sizes()) {
      return fail("weights", weights.where() + ": tensor \"" + p.name + "\" has shape " + dump_json(Json(view.shape)) +
                                 " where config.json means " + dump_json(Json(p.tensor.sizes().vec())) +
                                 "; they are of different models");
    }
    if (view.dtype != Dtype::kF32 && view.dtype != Dtype::kF16 && view.dtype != Dtype::kBF16) {
      return fail("weights", weights.where() + ": tensor \"" + p.name + "\" has dtype " + dtype_name(view.dtype) +
                                 "; weights must be F32, F16 or BF16");
    }
    // The file's memory is read only and may be unaligned for its dtype; copy_ only reads bytes.
    p.tensor.copy_(at::from_blob(const_cast<std::byte*>(view.bytes.data()), p.tensor.sizes(), scalar_type(view.dtype)));
  }
  return model;
}

TensorOut tensor_out(const std::string& name, const at::Tensor& tensor, at::ScalarType dtype,
                     std::vector<at::Tensor>& keep) {
  keep.push_back(tensor.detach().to(at::kCPU, dtype).contiguous());
  const at::Tensor& t = keep.back();
  Dtype kind = Dtype::kF32;
  if (dtype == at::kBFloat16) kind = Dtype::kBF16;
  if (dtype == at::kLong) kind = Dtype::kI64;
  return {name, kind, t.sizes().vec(), {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}};
}

Status Model::save(const fs::path& folder, at::ScalarType dtype) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> keep;
  std::vector<TensorOut> out;
  for (const NamedTensor& p : hugging_face()) out.push_back(tensor_out(p.name, p.tensor, dtype, keep));
  KZ_TRY(make_dirs(folder));
  KZ_TRY(write_safetensors(folder / "model.safetensors", out, {{"format", "pt"}}));
  Json config = model_config_json(config_);
  config["torch_dtype"] = dtype == at::kBFloat16 ? "bfloat16" : "float32";
  return write_file_atomic(folder / "config.json", dump_json(config, 2) + "\n");
}

at::Tensor Model::hidden(const at::Tensor& ids, at::ScalarType dtype) const {
  const ModelConfig& c = config_;
  const at::Tensor cos = cos_.narrow(0, 0, ids.size(1)), sin = sin_.narrow(0, 0, ids.size(1));
  const auto cast = [&](const at::Tensor& t) { return t.defined() ? t.to(dtype) : t; };
  at::Tensor x = at::embedding(embedding_, ids).to(dtype);
  for (const Layer& l : layers_) {
    const at::Tensor qkv = at::linear(rms_norm(x, l.norm1, c.rms_eps), cast(l.qkv), cast(l.qkv_bias));
    x = add_linear(x, rotated_attention(qkv, cos, sin, c.heads, c.kv_heads), cast(l.out));
    x = add_linear(x, swiglu(at::linear(rms_norm(x, l.norm2, c.rms_eps), cast(l.gate_up))), cast(l.down));
  }
  return rms_norm(x, norm_, c.rms_eps);
}

Result<at::Device> open_device(const std::string& name) {
  if (name == "cpu") return at::Device(at::kCPU);
  if (name == "cuda" || name.starts_with("cuda:")) {
    int index = 0;
    if (name != "cuda") {
      const std::string digits = name.substr(5);
      if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos)
        return fail("device", "device \"" + name + "\": expected cuda:N with a number");
      index = std::stoi(digits);
    }
    // libtorch_cuda registers itself when it is loaded, which must be before torch first looks for CUDA.
    ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
    if (!at::hasCUDA())
      return fail("device", "device \"" + name + "\": no usable CUDA device on this machine; use device = \"cpu\"");
    const auto count = static_cast<int>(at::detail::getCUDAHooks().deviceCount());
    if (index >= count)
      return fail("device", "device \"" + name + "\": this machine has " + std::to_string(count) + " CUDA devices");
    return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  }
  return fail("device", "device \"" + name + "\": expected \"cpu\", \"cuda\" or \"cuda:N\"");
}

Result<at::ScalarType> compute_dtype(const std::string& name, const at::Device& device) {
  if (name == "fp32" || (name == "auto" && device.is_cpu())) return at::kFloat;
  if (name == "bf16" || name == "auto") {
    if (device.is_cpu()) return fail("device", "dtype \"bf16\" needs a CUDA device; use fp32 on the CPU");
    return at::kBFloat16;
  }
  return fail("device", "dtype \"" + name + "\": expected \"auto\", \"fp32\" or \"bf16\"");
}

}  // namespace kz::lm
