#include "evolve/prompt.h"

#include "base/text.h"

namespace kz::evolve {
namespace {

std::string language(std::string_view backend) {
  if (backend == "cpp") return "C++ (torch.utils.cpp_extension.load_inline with cpp_sources, OpenMP allowed)";
  if (backend == "triton") return "Triton";
  return "CUDA (torch.utils.cpp_extension.load_inline)";
}

// Qwen's chat form.
std::string chat(const std::string& system, const std::string& user) {
  return "<|im_start|>system\n" + system + "<|im_end|>\n<|im_start|>user\n" + user +
         "<|im_end|>\n<|im_start|>assistant\n";
}

// Fenced blocks of a reply, in order; an unclosed last one counts, since models stop in the middle.
std::vector<std::string_view> fenced_blocks(std::string_view text) {
  std::vector<std::string_view> out;
  size_t at = 0;
  while ((at = text.find("```", at)) != std::string_view::npos) {
    const size_t line_end = text.find('\n', at);
    if (line_end == std::string_view::npos) break;
    const size_t begin = line_end + 1;
    const size_t end = text.find("```", begin);
    out.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) break;
    at = end + 3;
  }
  return out;
}

}  // namespace

Result<PromptFormat> prompt_format(const std::string& name, const fs::path& model_folder) {
  if (name == "nano") return PromptFormat::kNano;
  if (name == "chatml") return PromptFormat::kChatMl;
  if (name != "auto") return fail("config", "unknown prompt format '" + name + "': use auto, nano or chatml");
  KZ_ASSIGN(const std::string tokenizer, read_file(model_folder / "tokenizer.json"));
  return tokenizer.find("<|coder|>") != std::string::npos ? PromptFormat::kNano : PromptFormat::kChatMl;
}

lm::Prompt coder_prompt(PromptFormat format, std::string_view backend, std::string_view module) {
  lm::Prompt p;
  p.system = "You write fast and correct kernels for PyTorch modules.";
  p.user = "Write a module ModelNew that returns exactly what Model returns, with its computation in " +
           language(backend) +
           ". ModelNew takes the same constructor and forward arguments as Model. Do not call torch operators for the "
           "computation. Answer with one Python code block.\n\n```python\n" +
           std::string(trim(module)) + "\n```";
  if (format == PromptFormat::kNano) {
    p.text = "<|coder|><|" + std::string(backend) + "|>" + std::string(module) + "<|answer|>";
  } else {
    p.text = chat(p.system, p.user);
  }
  return p;
}

lm::Prompt proposer_prompt(PromptFormat format, const std::vector<std::string>& apis) {
  lm::Prompt p;
  const std::string names = join(apis, "\n");
  p.system = "You write small PyTorch modules that are good exercises for kernel writers.";
  p.user =
      "Write a PyTorch module named Model whose forward uses exactly these APIs and no other:\n" + names +
      "\nAlso define get_inputs(), which returns a list of random float32 tensors, and get_init_inputs(), which "
      "returns "
      "the constructor's arguments. Keep it deterministic and numerically stable. Answer with one Python code block.";
  p.text = format == PromptFormat::kNano ? "<|proposer|>" + names + "<|answer|>" : chat(p.system, p.user);
  return p;
}

std::string extract_code(PromptFormat format, std::string_view text, std::string_view needed) {
  if (format == PromptFormat::kNano) return std::string(text);
  const auto blocks = fenced_blocks(text);
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    if (it->find(needed) != std::string_view::npos) return std::string(*it);
  }
  return blocks.empty() ? std::string(text) : std::string(blocks.back());
}

std::vector<std::string> stop_strings(PromptFormat format) {
  if (format == PromptFormat::kNano) return {};
  return {"<|im_end|>", "<|endoftext|>"};
}

}  // namespace kz::evolve
