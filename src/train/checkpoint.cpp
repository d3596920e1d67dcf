#include "train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>

#include "lm/safetensors.h"

namespace kz::train {

namespace {

constexpr int kVersion = 1;

Status sync_folder(const fs::path& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return fail("io", folder.string() + ": " + errno_text(errno));
  return {};
}

// The tensors of `file` under the names of `wanted`, each with the wanted shape, on the CPU.
Result<std::vector<at::Tensor>> read_all(const lm::WeightFile& file, const std::vector<lm::NamedTensor>& wanted) {
  std::vector<at::Tensor> out;
  for (const lm::NamedTensor& w : wanted) {
    KZ_ASSIGN(const lm::TensorView view, file.get(w.name));
    if (at::IntArrayRef(view.shape) != w.tensor.sizes() || view.dtype != lm::Dtype::kF32) {
      return fail("checkpoint", file.where() + ": tensor \"" + w.name +
                                    "\" has another shape or dtype than this trainer's; " +
                                    "resume with the model that the checkpoint was made with");
    }
    out.push_back(at::from_blob(const_cast<std::byte*>(view.bytes.data()), w.tensor.sizes(), at::kFloat));
  }
  return out;
}

}  // namespace

Status replace_folder(const fs::path& folder, const std::function<Status(const fs::path&)>& fill) {
  fs::path target = folder;
  if (target.filename().empty()) target = target.parent_path();
  const fs::path parent = target.has_parent_path() ? target.parent_path() : fs::path(".");
  KZ_TRY(make_dirs(parent));
  KZ_ASSIGN(const TempDir next, TempDir::make(parent, "." + target.filename().string() + "."));
  KZ_TRY(fill(next.path()));
  KZ_TRY(sync_folder(next.path()));
  std::error_code ignored;
  if (!fs::exists(target, ignored)) {
    if (::rename(next.path().c_str(), target.c_str()) != 0)
      return fail("io", target.string() + ": " + errno_text(errno));
  } else if (::renameat2(AT_FDCWD, next.path().c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
    return fail("io",
                target.string() + ": cannot be replaced: " + errno_text(errno) + "; keep runs on a local file system");
  }
  return sync_folder(parent);  // `next` now names the old folder, or nothing, and is removed
}

Status save_checkpoint(const fs::path& folder, const lm::Model& model, const lm::Tokenizer& tokenizer,
                       const TrainerState& state) {
  return replace_folder(folder, [&](const fs::path& to) -> Status {
    KZ_TRY(model.save(to, at::kFloat));
    KZ_TRY(write_file_atomic(to / "tokenizer.json", tokenizer.source()));
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> keep;
    std::vector<lm::TensorOut> out;
    for (const lm::NamedTensor& t : state.optimizer) out.push_back(lm::tensor_out(t.name, t.tensor, at::kFloat, keep));
    KZ_TRY(lm::write_safetensors(to / "optimizer.safetensors", out));
    return write_file_atomic(to / "trainer.json", dump_json(Json{{"version", kVersion}, {"step", state.step}}) + "\n");
  });
}

Status load_checkpoint(const fs::path& folder, lm::Model& model, TrainerState& state) {
  const fs::path info = folder / "trainer.json";
  KZ_ASSIGN(const std::string text, read_file(info, 1 << 20));
  KZ_ASSIGN(const Json json, parse_json(text, info.string()));
  if (!json.is_object() || json.value("version", Json()) != kVersion || !json.contains("step") ||
      !json["step"].is_number_integer()) {
    return fail("checkpoint", info.string() + ": not a checkpoint of version " + std::to_string(kVersion) +
                                  "; use the program that wrote it, or start anew");
  }
  const at::NoGradGuard no_grad;
  KZ_ASSIGN(const lm::WeightFile weights, lm::WeightFile::open(folder / "model.safetensors"));
  KZ_ASSIGN(const lm::WeightFile moments, lm::WeightFile::open(folder / "optimizer.safetensors"));
  const std::vector<lm::NamedTensor> parameters = model.hugging_face();
  KZ_ASSIGN(const std::vector<at::Tensor> new_weights, read_all(weights, parameters));
  KZ_ASSIGN(const std::vector<at::Tensor> new_moments, read_all(moments, state.optimizer));
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].tensor.copy_(new_weights[i]);
  for (size_t i = 0; i < state.optimizer.size(); ++i) state.optimizer[i].tensor.copy_(new_moments[i]);
  state.step = json["step"].get<int64_t>();
  model.touch();
  return {};
}

}  // namespace kz::train
