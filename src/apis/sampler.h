// Which APIs stand together in real modules, and lists of APIs drawn from that: what the Proposer is asked for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apis/catalogue.h"
#include "base/random.h"

namespace kz::apis {

// Counts over a set of modules: of each API, and of each pair in one module. Names are canonical.
class Cooccurrence {
 public:
  // data/apis/cooccurrence.json: {"version": 1, "modules": n, "names": […], "singles": […], "pairs": [[i, j, n], …]}.
  // Error "cooccurrence" names the file and the place; every name must be in the catalogue.
  static Result<Cooccurrence> load(const fs::path& file, const Catalogue& catalogue);
  static Result<Cooccurrence> parse(std::string_view json, std::string_view where, const Catalogue& catalogue);

  void add_module(const std::vector<std::string>& names);  // canonical names, doubles count once
  Json to_json() const;

  uint64_t modules() const { return modules_; }
  uint64_t count(const std::string& name) const;
  uint64_t count(const std::string& a, const std::string& b) const;
  std::vector<std::string> names() const;

 private:
  uint64_t modules_ = 0;
  std::map<std::string, uint64_t> singles_;
  std::map<std::pair<std::string, std::string>, uint64_t> pairs_;  // first < second
};

struct ListOptions {
  size_t lists = 0;
  std::vector<int> sizes = {2, 3};  // APIs a list, in equal shares
  uint64_t seed = 0;
  std::vector<std::string> subset;  // only these (any spelling); empty: all that occur
  double uniform = 0.1;             // share of weight given to all pairs alike, so that none is out of reach
  bool distinct = false;            // no list twice, while there are enough different ones
};

// Lists of different canonical names, each sorted. Deterministic in the options. A first API is drawn by its count,
// each further one by its co-occurrence with those drawn. Error "apis" when the subset is too small for a size.
Result<std::vector<std::vector<std::string>>> sample_lists(const Catalogue& catalogue, const Cooccurrence& counts,
                                                           const ListOptions& options);

// {apis, by_kind, by_category, modules, pairs, top: [{name, count}, …], top_pairs: [{names, count}, …]}
Json stats_json(const Catalogue& catalogue, const Cooccurrence& counts);

}  // namespace kz::apis
