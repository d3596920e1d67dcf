#include <algorithm>
#include <set>

#include "apis/sampler.h"

namespace kz::apis {
namespace {

constexpr int kVersion = 1;

}  // namespace

Result<Cooccurrence> Cooccurrence::load(const fs::path& file, const Catalogue& catalogue) {
  KZ_ASSIGN(const std::string text, read_file(file));
  return parse(text, file.string(), catalogue);
}

Result<Cooccurrence> Cooccurrence::parse(std::string_view text, std::string_view where, const Catalogue& catalogue) {
  KZ_ASSIGN(const Json json, parse_json(text, where));
  const std::string file(where);
  auto bad = [&](const std::string& why) { return fail("cooccurrence", file + ": " + why); };
  if (!json.is_object() || json.value("version", Json()) != kVersion)
    return bad("version must be " + std::to_string(kVersion));
  for (const char* key : {"names", "singles", "pairs"})
    if (!json.contains(key) || !json[key].is_array()) return bad(std::string("'") + key + "' must be an array");
  const Json &names = json["names"], &singles = json["singles"], &pairs = json["pairs"];
  if (names.size() != singles.size()) return bad("'singles' must be as long as 'names'");
  if (!json.value("modules", Json()).is_number_unsigned()) return bad("'modules' must be a count");

  Cooccurrence counts;
  counts.modules_ = json["modules"];
  std::vector<std::string> list;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string place = "names[" + std::to_string(i) + "]";
    if (!names[i].is_string() || !singles[i].is_number_unsigned()) return bad(place + " or its count is malformed");
    const Api* api = catalogue.find(names[i].get<std::string>());
    if (!api || api->name != names[i].get<std::string>())
      return bad(place + ": " + names[i].dump() + " is no canonical name");
    list.push_back(names[i]);
    counts.singles_[list.back()] = singles[i];
  }
  for (size_t k = 0; k < pairs.size(); ++k) {
    const Json& p = pairs[k];
    const bool well = p.is_array() && p.size() == 3 && p[0].is_number_unsigned() && p[1].is_number_unsigned() &&
                      p[2].is_number_unsigned() && p[0] < list.size() && p[1] < list.size() && p[0] != p[1];
    if (!well) return bad("pairs[" + std::to_string(k) + "] must be [i, j, count] with two different names");
    const auto [a, b] = std::minmax(list[p[0].get<size_t>()], list[p[1].get<size_t>()]);
    counts.pairs_[{a, b}] += p[2].get<uint64_t>();
  }
  return counts;
}

void Cooccurrence::add_module(const std::vector<std::string>& names) {
  const std::set<std::string> unique(names.begin(), names.end());
  ++modules_;
  for (auto a = unique.begin(); a != unique.end(); ++a) {
    ++singles_[*a];
    for (auto b = std::next(a); b != unique.end(); ++b) ++pairs_[{*a, *b}];
  }
}

Json Cooccurrence::to_json() const {
  std::map<std::string, size_t> index;
  Json names = Json::array(), singles = Json::array(), pairs = Json::array();
  for (const auto& [name, count] : singles_) {
    index[name] = names.size();
    names.push_back(name);
    singles.push_back(count);
  }
  for (const auto& [pair, count] : pairs_) pairs.push_back({index[pair.first], index[pair.second], count});
  return {{"version", kVersion}, {"modules", modules_}, {"names", names}, {"singles", singles}, {"pairs", pairs}};
}

uint64_t Cooccurrence::count(const std::string& name) const {
  const auto at = singles_.find(name);
  return at == singles_.end() ? 0 : at->second;
}

uint64_t Cooccurrence::count(const std::string& a, const std::string& b) const {
  const auto at = pairs_.find(std::minmax(a, b));
  return at == pairs_.end() ? 0 : at->second;
}

std::vector<std::string> Cooccurrence::names() const {
  std::vector<std::string> list;
  for (const auto& entry : singles_) list.push_back(entry.first);
  return list;
}

}  // namespace kz::apis
