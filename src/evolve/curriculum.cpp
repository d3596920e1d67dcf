#include "evolve/curriculum.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/random.h"

namespace kz::evolve {
namespace {

// Ids of one status, shuffled.
std::vector<int64_t> shuffled(const Archive& archive, ModuleStatus status, Rng& rng) {
  std::vector<int64_t> ids;
  for (const auto& m : archive.modules()) {
    if (m.status == status) ids.push_back(m.id);
  }
  rng.shuffle(ids);
  return ids;
}

void take(std::vector<int64_t>& from, size_t n, std::vector<int64_t>& to) {
  n = std::min(n, from.size());
  to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(n));
  from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(n));
}

}  // namespace

Selection select_modules(const Archive& archive, const CoderOptions& options, int64_t step, uint64_t seed) {
  Rng rng(derive_seed(seed, "curriculum", static_cast<uint64_t>(step)));
  const auto prompts = static_cast<size_t>(options.prompts);
  Selection out;
  auto frontier = shuffled(archive, ModuleStatus::kFrontier, rng);
  take(frontier, static_cast<size_t>(std::floor(options.replay * options.prompts + 1e-9)), out.replayed);

  auto hard = shuffled(archive, ModuleStatus::kHard, rng);
  std::erase_if(hard, [&](int64_t id) { return step - archive.at(id).seen_step < options.hard_after; });
  const auto room = prompts - out.replayed.size();
  take(hard, std::min(room, static_cast<size_t>(std::floor(options.hard * options.prompts + 1e-9))), out.hard);

  // Fresh ones in order of admission: the Proposer of now is better than the one of long ago, but the old were paid
  // for.
  for (const auto& m : archive.modules()) {
    if (out.replayed.size() + out.hard.size() + out.fresh.size() >= prompts) break;
    if (m.status == ModuleStatus::kFresh && m.times_seen == 0) out.fresh.push_back(m.id);
  }
  out.missing = static_cast<int>(prompts - out.replayed.size() - out.hard.size() - out.fresh.size());
  return out;
}

std::vector<int64_t> select_more(const Archive& archive, const Selection& taken, size_t n, uint64_t seed) {
  std::unordered_set<int64_t> used(taken.replayed.begin(), taken.replayed.end());
  used.insert(taken.hard.begin(), taken.hard.end());
  used.insert(taken.fresh.begin(), taken.fresh.end());
  Rng rng(seed);
  std::vector<int64_t> out;
  for (const auto status : {ModuleStatus::kFrontier, ModuleStatus::kFresh, ModuleStatus::kHard}) {
    auto ids = shuffled(archive, status, rng);
    std::erase_if(ids, [&](int64_t id) { return used.count(id) > 0; });
    std::stable_sort(ids.begin(), ids.end(),
                     [&](int64_t a, int64_t b) { return archive.at(a).times_seen < archive.at(b).times_seen; });
    take(ids, n - out.size(), out);
  }
  return out;
}

}  // namespace kz::evolve
