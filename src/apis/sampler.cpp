#include "apis/sampler.h"

#include <algorithm>
#include <set>

namespace kz::apis {
namespace {

constexpr size_t kTop = 20;
constexpr int kPatience = 1000;  // draws of a list already had before doubles are allowed

// An index by weight; weights are not negative and not all zero.
size_t draw(Rng& rng, const std::vector<double>& weights) {
  double total = 0;
  for (double w : weights) total += w;
  double u = rng.uniform() * total;
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    if (u < weights[i]) break;
    u -= weights[i];
  }
  return last;
}

// Mixes the share `uniform` of equal weights over the candidates into `weights`; zero weights that are not candidates
// stay.
void soften(std::vector<double>& weights, const std::vector<bool>& candidate, double uniform) {
  double total = 0, n = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    total += weights[i];
    n += candidate[i];
  }
  for (size_t i = 0; i < weights.size(); ++i)
    if (candidate[i]) weights[i] = total > 0 ? (1 - uniform) * weights[i] / total + uniform / n : 1;
}

std::vector<std::string> draw_list(Rng& rng, const Cooccurrence& counts, const std::vector<std::string>& pool, int size,
                                   double uniform) {
  std::vector<std::string> list;
  std::vector<bool> candidate(pool.size(), true);
  std::vector<double> weights;
  for (const std::string& name : pool) weights.push_back(static_cast<double>(counts.count(name)));
  while (static_cast<int>(list.size()) < size) {
    soften(weights, candidate, uniform);
    const size_t k = draw(rng, weights);
    list.push_back(pool[k]);
    candidate[k] = false;
    for (size_t i = 0; i < pool.size(); ++i) {
      weights[i] = 0;
      if (!candidate[i]) continue;
      // An API that never stood beside one of those drawn has only the uniform share.
      weights[i] = 1;
      for (const std::string& have : list) weights[i] *= static_cast<double>(counts.count(have, pool[i]));
    }
  }
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace

Result<std::vector<std::vector<std::string>>> sample_lists(const Catalogue& catalogue, const Cooccurrence& counts,
                                                           const ListOptions& options) {
  std::vector<std::string> pool = counts.names();
  if (!options.subset.empty()) {
    KZ_ASSIGN(pool, catalogue.resolve(options.subset));
    std::sort(pool.begin(), pool.end());
    pool.erase(std::unique(pool.begin(), pool.end()), pool.end());
  }
  if (options.sizes.empty()) return fail("apis", "sizes: at least one list size is needed");
  for (int size : options.sizes)
    if (size < 1 || static_cast<size_t>(size) > pool.size())
      return fail("apis", "a list of " + std::to_string(size) + " different APIs from " + std::to_string(pool.size()));
  if (!(options.uniform >= 0 && options.uniform <= 1)) return fail("apis", "uniform is a share, 0 to 1");

  Rng rng(derive_seed(options.seed, "apis/lists"));
  std::vector<std::vector<std::string>> lists;
  std::set<std::vector<std::string>> seen;
  for (int stale = 0; lists.size() < options.lists;) {
    const int size = options.sizes[lists.size() % options.sizes.size()];
    std::vector<std::string> list = draw_list(rng, counts, pool, size, options.uniform);
    if (options.distinct && seen.contains(list) && ++stale < kPatience) continue;
    stale = 0;
    seen.insert(list);
    lists.push_back(std::move(list));
  }
  return lists;
}

Json stats_json(const Catalogue& catalogue, const Cooccurrence& counts) {
  std::map<std::string, int> kinds, categories;
  size_t spellings = 0;
  for (const Api& api : catalogue.apis()) {
    ++kinds[api.kind];
    ++categories[api.category];
    spellings += 1 + api.aliases.size();
  }
  const std::vector<std::string> names = counts.names();
  std::vector<std::pair<uint64_t, std::vector<std::string>>> singles, pairs;
  for (size_t i = 0; i < names.size(); ++i) {
    singles.push_back({counts.count(names[i]), {names[i]}});
    for (size_t j = i + 1; j < names.size(); ++j)
      if (const uint64_t n = counts.count(names[i], names[j])) pairs.push_back({n, {names[i], names[j]}});
  }
  const size_t pair_count = pairs.size();
  Json top = Json::array(), top_pairs = Json::array();
  auto most_first = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  std::sort(singles.begin(), singles.end(), most_first);
  std::sort(pairs.begin(), pairs.end(), most_first);
  singles.resize(std::min(singles.size(), kTop));
  pairs.resize(std::min(pairs.size(), kTop));
  for (const auto& [n, name] : singles) top.push_back({{"name", name[0]}, {"count", n}});
  for (const auto& [n, both] : pairs) top_pairs.push_back({{"names", both}, {"count", n}});
  return {{"apis", catalogue.apis().size()},
          {"spellings", spellings},
          {"by_kind", kinds},
          {"by_category", categories},
          {"modules", counts.modules()},
          {"occurring", names.size()},
          {"pairs", pair_count},
          {"top", top},
          {"top_pairs", top_pairs}};
}

}  // namespace kz::apis
