// apis: the Torch APIs that modules are made of. One entry is one concept: function, functional, module and method
// spellings ("torch.relu", "torch.nn.functional.relu", "torch.nn.ReLU", "torch.Tensor.relu") resolve to one canonical
// name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "base/json.h"

namespace kz::apis {

struct Api {
  std::string name;                  // canonical, fully qualified
  std::string kind;                  // of the canonical spelling: "function" "functional" "module" "method"
  std::vector<std::string> aliases;  // every other spelling, fully qualified; "torch.Tensor.x" for a method
  std::string signature;             // of the canonical spelling, a hint: "(input, dim, keepdim=False)"
  std::string category;              // "activation" "reduction" "linear" …
  int tensors = 1;                   // tensors that a call takes at least, parameters of a module not counted
};

Json to_json(const Api& api);

class Catalogue {
 public:
  // data/apis/catalogue.json: {"version": 1, "apis": [{name, kind, aliases, signature, category, tensors}, …]}.
  // Error "catalogue" names the file, the entry and the field.
  static Result<Catalogue> load(const fs::path& file);
  static Result<Catalogue> parse(std::string_view json, std::string_view where);

  const std::vector<Api>& apis() const { return apis_; }
  const Api* find(std::string_view spelling) const;  // by canonical name or alias; null when unknown

  // "torch.nn.ReLU" -> "torch.relu". Short forms are understood: "F.relu", "nn.ReLU", "Tensor.relu", "x.relu()" is not.
  std::optional<std::string> canonical(std::string_view spelling) const;

  // Error "api" for a name that is not in the catalogue, with the nearest one that is.
  Result<std::vector<std::string>> resolve(const std::vector<std::string>& spellings) const;

  Json list_json() const;  // array of entries, in the order of the file

 private:
  std::vector<Api> apis_;
  std::unordered_map<std::string, size_t> by_spelling_;
};

}  // namespace kz::apis
