#include "apis/catalogue.h"

#include <array>

#include "base/text.h"

namespace kz::apis {
namespace {

constexpr int kVersion = 1;

// Short forms that people write, and what they stand for.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kShort = {
    {{"F.", "torch.nn.functional."},
     {"nn.", "torch.nn."},
     {"functional.", "torch.nn.functional."},
     {"Tensor.", "torch.Tensor."}}};

std::string qualified(std::string_view spelling) {
  for (const auto& [prefix, full] : kShort)
    if (spelling.starts_with(prefix)) return std::string(full) + std::string(spelling.substr(prefix.size()));
  return std::string(spelling);
}

bool known_kind(const std::string& kind) {
  return kind == "function" || kind == "functional" || kind == "module" || kind == "method";
}

Result<Api> api_from_json(const Json& json, const std::string& place) {
  if (!json.is_object()) return fail("catalogue", place + ": an entry is an object");
  Api api;
  for (const auto& [key, value] : json.items()) {
    if (key == "name" && value.is_string())
      api.name = value;
    else if (key == "kind" && value.is_string())
      api.kind = value;
    else if (key == "signature" && value.is_string())
      api.signature = value;
    else if (key == "category" && value.is_string())
      api.category = value;
    else if (key == "tensors" && value.is_number_unsigned() && value <= 16)
      api.tensors = value;
    else if (key == "aliases" && value.is_array()) {
      for (const Json& alias : value) {
        if (!alias.is_string()) return fail("catalogue", place + ": aliases are strings");
        api.aliases.push_back(alias);
      }
    } else {
      return fail("catalogue", place + ": unknown or malformed field '" + key +
                                   "'; fields are name, kind, aliases, signature, category, tensors");
    }
  }
  if (!api.name.starts_with("torch.")) return fail("catalogue", place + ": 'name' must begin with torch.");
  if (!known_kind(api.kind))
    return fail("catalogue", place + " (" + api.name + "): 'kind' is function, functional, module or method");
  return api;
}

}  // namespace

Json to_json(const Api& api) {
  return {{"name", api.name},           {"kind", api.kind},         {"aliases", api.aliases},
          {"signature", api.signature}, {"category", api.category}, {"tensors", api.tensors}};
}

Result<Catalogue> Catalogue::load(const fs::path& file) {
  KZ_ASSIGN(const std::string text, read_file(file));
  return parse(text, file.string());
}

Result<Catalogue> Catalogue::parse(std::string_view text, std::string_view where) {
  KZ_ASSIGN(const Json json, parse_json(text, where));
  const std::string file(where);
  if (!json.is_object() || !json.contains("apis") || !json["apis"].is_array())
    return fail("catalogue", file + ": expected {\"version\": 1, \"apis\": [...]}");
  if (json.value("version", Json()) != kVersion)
    return fail("catalogue", file + ": version must be " + std::to_string(kVersion));
  Catalogue catalogue;
  for (size_t i = 0; i < json["apis"].size(); ++i) {
    KZ_ASSIGN(Api api, api_from_json(json["apis"][i], file + ": apis[" + std::to_string(i) + "]"));
    std::vector<std::string> spellings = api.aliases;
    spellings.push_back(api.name);
    for (const std::string& spelling : spellings) {
      const auto [at, inserted] = catalogue.by_spelling_.emplace(spelling, i);
      if (!inserted)
        return fail("catalogue", file + ": apis[" + std::to_string(i) + "] (" + api.name + "): '" + spelling +
                                     "' already belongs to " +
                                     (at->second == i ? api.name : catalogue.apis_[at->second].name));
    }
    catalogue.apis_.push_back(std::move(api));
  }
  return catalogue;
}

const Api* Catalogue::find(std::string_view spelling) const {
  const auto at = by_spelling_.find(qualified(spelling));
  return at == by_spelling_.end() ? nullptr : &apis_[at->second];
}

std::optional<std::string> Catalogue::canonical(std::string_view spelling) const {
  const Api* api = find(spelling);
  return api ? std::optional(api->name) : std::nullopt;
}

Result<std::vector<std::string>> Catalogue::resolve(const std::vector<std::string>& spellings) const {
  std::vector<std::string> names;
  for (const std::string& spelling : spellings) {
    const Api* api = find(spelling);
    if (!api) {
      std::vector<std::string> known;
      for (const auto& entry : by_spelling_) known.push_back(entry.first);
      const std::string near = nearest(qualified(spelling), known);
      return fail("api", "'" + spelling + "' is not in the catalogue" +
                             (near.empty() ? std::string() : "; did you mean " + near + "?"));
    }
    names.push_back(api->name);
  }
  return names;
}

Json Catalogue::list_json() const {
  Json list = Json::array();
  for (const Api& api : apis_) list.push_back(to_json(api));
  return list;
}

}  // namespace kz::apis
