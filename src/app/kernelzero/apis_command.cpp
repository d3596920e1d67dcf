#include <cstdio>

#include "apis/sampler.h"
#include "app/kernelzero/commands.h"
#include "base/layout.h"
#include "base/text.h"

namespace kz::app {
namespace {

struct Data {
  apis::Catalogue catalogue;
  apis::Cooccurrence counts;
};

Result<Data> load() {
  KZ_ASSIGN(const Layout layout, find_layout());
  KZ_ASSIGN(auto catalogue, apis::Catalogue::load(layout.root / "data/apis/catalogue.json"));
  KZ_ASSIGN(auto counts, apis::Cooccurrence::load(layout.root / "data/apis/cooccurrence.json", catalogue));
  return Data{std::move(catalogue), std::move(counts)};
}

}  // namespace

int apis_list(const ApisCommand& command) {
  const auto data = load();
  if (!data) return complain(data.error());
  if (command.json) {
    std::printf("%s\n", dump_json(data->catalogue.list_json(), 1).c_str());
    return kExitDone;
  }
  for (const auto& api : data->catalogue.apis()) {
    std::printf("%-40s %-12s %s\n", api.name.c_str(), api.category.c_str(), join(api.aliases, " ").c_str());
  }
  return kExitDone;
}

int apis_stats(const ApisCommand& command) {
  const auto data = load();
  if (!data) return complain(data.error());
  const Json stats = apis::stats_json(data->catalogue, data->counts);
  if (command.json) {
    std::printf("%s\n", dump_json(stats, 1).c_str());
    return kExitDone;
  }
  for (const auto& [name, value] : stats.items()) {
    if (!value.is_array()) std::printf("%-12s %s\n", name.c_str(), dump_json(value).c_str());
  }
  std::printf("most frequent\n");
  for (const auto& row : stats.value("top", Json::array())) {
    std::printf("  %6lld  %s\n", static_cast<long long>(row.value("count", 0)), row.value("name", "").c_str());
  }
  return kExitDone;
}

int apis_sample(const ApisCommand& command) {
  const auto data = load();
  if (!data) return complain(data.error());
  apis::ListOptions options;
  options.lists = static_cast<size_t>(command.lists);
  options.sizes = command.sizes;
  options.seed = command.seed;
  options.subset = command.subset;
  const auto lists = apis::sample_lists(data->catalogue, data->counts, options);
  if (!lists) return complain(lists.error());
  if (command.json) {
    std::printf("%s\n", dump_json(Json(*lists)).c_str());
    return kExitDone;
  }
  for (const auto& list : *lists) std::printf("%s\n", join(list, " ").c_str());
  return kExitDone;
}

}  // namespace kz::app
