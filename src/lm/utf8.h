// UTF-8 as the tokenizer needs it: broken input is replaced, never refused.
#pragma once

#include <string>
#include <string_view>

namespace kz::lm {

// Length of the code point that starts at text[at], or 0 if the bytes there form none. `bad` is then the number of
// bytes of the longest broken prefix (at least 1), which one U+FFFD stands for: what Rust's and Python's lossy decoders
// do.
size_t utf8_length(std::string_view text, size_t at, size_t* bad = nullptr);

bool valid_utf8(std::string_view text);
std::string replace_invalid_utf8(std::string_view text);

}  // namespace kz::lm
