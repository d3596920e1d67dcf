#include <cstdio>

#include "apis/catalogue.h"
#include "app/kernelzero/ask.h"
#include "base/text.h"

namespace kz::app {
namespace {

Result<int> run(const ProposeCommand& command) {
  KZ_ASSIGN(const Layout layout, find_layout());
  KZ_ASSIGN(const auto catalogue, apis::Catalogue::load(layout.root / "data/apis/catalogue.json"));
  KZ_ASSIGN(auto names, catalogue.resolve(command.apis));
  std::sort(names.begin(), names.end());
  Asking::Options options{command.model,       command.format,         command.device, "", command.where,
                          command.temperature, command.max_new_tokens, command.seed,   {}};
  KZ_ASSIGN(const auto asking, Asking::open(options));
  evolve::Loop loop = asking->loop({names});
  loop.book.begin(0);
  std::map<std::string, double> metrics;
  KZ_ASSIGN(const auto groups, evolve::write_modules(loop, {0}, command.samples, "propose", 0, metrics));
  Json list = Json::array();
  int valid = 0, scored = 0;
  for (size_t i = 0; i < groups.front().size(); ++i) {
    const auto& m = groups.front()[i];
    valid += m.valid;
    scored += m.scored;
    const Json report = m.report > 0 ? keck::to_json(loop.book.report(i).report) : Json();
    list.push_back({{"module", m.code}, {"valid", m.valid}, {"reason", m.admission.reason}, {"report", report}});
    if (command.json) continue;
    if (m.valid) std::printf("# %zu: valid\n%s\n", i + 1, std::string(trim(m.code)).c_str());
    if (!m.valid) std::printf("# %zu: refused: %s\n", i + 1, m.admission.reason.c_str());
  }
  if (command.json) std::printf("%s\n", dump_json({{"apis", names}, {"valid", valid}, {"modules", list}}, 1).c_str());
  if (valid > 0) return static_cast<int>(kExitDone);
  return static_cast<int>(scored > 0 ? kExitNot : kExitUnscored);
}

}  // namespace

int propose(const ProposeCommand& command) {
  const auto result = run(command);
  return result ? *result : complain(result.error());
}

}  // namespace kz::app
