// The tokenizer of the nano models, made from the families' own templates: docs/corpus.md says how it matches.
#pragma once

#include <string>
#include <vector>

namespace kz::corpus {

// In the order of their ids, which follow the 256 bytes: <|pad|> <|end|> <|coder|> <|proposer|> <|cpp|> <|triton|>
// <|answer|>
std::vector<std::string> special_tokens();

// Ordinary added tokens: boilerplate of modules and kernels, API names, code fragments, numbers.
std::vector<std::string> phrase_tokens();

// A Hugging Face tokenizer.json: byte-level BPE over the 256 bytes without merges, added tokens matched first, leftmost
// and longest. The same text on every machine.
std::string nano_tokenizer_json();

}  // namespace kz::corpus
