#include "corpus/family.h"

#include <algorithm>
#include <set>

#include "corpus/family_parts.h"

namespace kz::corpus {

std::vector<Spelling> spell(const std::vector<std::string>& calls) {
  std::vector<Spelling> spellings;
  for (const std::string& call : calls) {
    const size_t open = call.find('(');
    spellings.push_back({call.substr(0, open), call.substr(open + 1, call.size() - open - 2)});
  }
  return spellings;
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> list;
    for (auto part : {unary_families(), scalar_families(), row_families(), reduce_families(), input_families()})
      for (Family& family : part) list.push_back(std::move(family));
    return list;
  }();
  return all;
}

const Family* find_family(std::string_view name) {
  for (const Family& family : families())
    if (family.name == name) return &family;
  return nullptr;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.push_back(family.name);
  return names;
}

std::vector<std::string> apis_of(const std::vector<std::string>& names) {
  std::set<std::string> apis;
  for (const std::string& name : names)
    if (const Family* family = find_family(name)) apis.insert(family->api);
  return {apis.begin(), apis.end()};
}

}  // namespace kz::corpus
