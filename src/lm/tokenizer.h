// Byte-level BPE of a Hugging Face tokenizer.json: NFC, split by regex, merges; added tokens are matched first, longest
// first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace kz::lm {

class Tokenizer {
 public:
  // Error "tokenizer": one line with the file, the place in it and the remedy.
  static Result<std::shared_ptr<const Tokenizer>> load(const fs::path& file_or_folder);
  static Result<std::shared_ptr<const Tokenizer>> parse(std::string_view json, std::string_view where);
  ~Tokenizer();

  // Any bytes; invalid UTF-8 is read as U+FFFD. With `specials` false the special added tokens are plain text (ordinary
  // added tokens still match), so text of others cannot forge them.
  std::vector<int32_t> encode(std::string_view text, bool specials = true) const;

  // Bytes that form no UTF-8 become U+FFFD; unknown ids nothing. Special tokens are left out unless `specials`.
  std::string decode(const std::vector<int32_t>& tokens, bool specials = false) const;

  int64_t size() const;  // largest id + 1
  std::optional<int32_t> find(
      std::string_view token) const;    // an added token by its text, or a vocabulary entry in byte-level form
  std::string token(int32_t id) const;  // the inverse; "" for an unknown id
  bool is_special(int32_t id) const;
  const std::string& source() const;  // the tokenizer.json that it was made from, to be saved beside a model

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kz::lm
