#include <cstdio>

#include "app/kernelzero/support.h"
#include "lm/model_config.h"
#include "lm/safetensors.h"
#include "lm/tokenizer.h"

namespace kz::app {
namespace {

Result<Json> describe(const fs::path& folder) {
  KZ_ASSIGN(const auto config, lm::load_model_config(folder));
  KZ_ASSIGN(const auto tokenizer, lm::Tokenizer::load(folder));
  KZ_TRY(lm::WeightFile::open(folder).map([](const auto&) {}));  // a damaged file is not a model
  KZ_ASSIGN(const auto format, evolve::prompt_format("auto", folder));
  uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return Json{{"architecture", config.architecture},
              {"parameters", config.parameters()},
              {"hidden", config.hidden},
              {"layers", config.layers},
              {"heads", config.heads},
              {"kv_heads", config.kv_heads},
              {"vocabulary", config.vocab},
              {"tokens", tokenizer->size()},
              {"max_positions", config.max_positions},
              {"format", format == evolve::PromptFormat::kNano ? "nano" : "chatml"},
              {"bytes", bytes}};
}

}  // namespace

int model_info(const std::string& model, bool json) {
  const auto layout = find_layout();
  if (!layout) return complain(layout.error());
  const auto info = describe(find_path(model, *layout));
  if (!info) return complain(info.error());
  if (json) {
    std::printf("%s\n", dump_json(*info, 1).c_str());
    return kExitDone;
  }
  for (const auto& [name, value] : info->items()) {
    std::printf("%-14s %s\n", name.c_str(),
                value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
  }
  return kExitDone;
}

}  // namespace kz::app
