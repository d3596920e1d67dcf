// The pre-tokenizer of a tokenizer.json: how text is cut into the words that merges cannot cross.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kz::lm {

class Splitter {
 public:
  // `pre_tokenizer` of tokenizer.json: Split, ByteLevel or a Sequence of them. Error "tokenizer" for others.
  static Result<Splitter> parse(const Json& pre_tokenizer, std::string_view where);
  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;
  ~Splitter();

  // The words of `text` (valid UTF-8), in order.
  std::vector<std::string_view> words(std::string_view text) const;
  bool add_prefix_space() const { return add_prefix_space_; }

 private:
  struct Rule;
  Splitter();
  std::vector<std::unique_ptr<Rule>> rules_;
  bool add_prefix_space_ = false;
};

}  // namespace kz::lm
