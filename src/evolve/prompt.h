// evolve: the co-evolution in the words of the method: prompts, Proposer and Coder phases, archive, curriculum, rounds,
// run store, evaluation. It asks models through lm::Generator and Learner, and Keck through Judge; no torch in here.
// This header: the text that a model reads and the code in what it writes. The only place that knows chat formats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "lm/generator.h"

namespace kz::evolve {

enum class PromptFormat {
  kNano,    // <|coder|><|cpp|>MODULE<|answer|>CANDIDATE<|end|> and <|proposer|>APIs, one a line<|answer|>MODULE<|end|>
  kChatMl,  // Qwen's chat form; the answer is the (last) fenced block of the reply
};

// "nano" or "chatml"; "auto" looks for <|coder|> in the folder's tokenizer.json. A server is always kChatMl.
Result<PromptFormat> prompt_format(const std::string& name, const fs::path& model_folder);

// `module` is the canonical source (no comments, canonical names); `backend` is "cpp", "triton" or "cuda".
lm::Prompt coder_prompt(PromptFormat format, std::string_view backend, std::string_view module);
lm::Prompt proposer_prompt(PromptFormat format, const std::vector<std::string>& apis);

// The code of a completion's text: itself for kNano; for kChatMl the last fenced block that defines `needed` ("class
// ModelNew", "class Model"), else the last block, else the whole text.
std::string extract_code(PromptFormat format, std::string_view text, std::string_view needed);

// What ends a completion beside the model's own end token; for servers and for ChatML models.
std::vector<std::string> stop_strings(PromptFormat format);

}  // namespace kz::evolve
