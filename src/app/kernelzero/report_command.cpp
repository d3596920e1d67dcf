#include <cstdio>

#include "app/kernelzero/commands.h"
#include "base/layout.h"
#include "base/log.h"
#include "bench/report.h"
#include "evolve/report_data.h"

namespace kz::app {

int report(const ReportCommand& command) {
  const auto layout = find_layout();
  if (!layout) return complain(layout.error());
  const auto data = evolve::report_data(command.run, {.rollouts = command.rollouts});
  if (!data) return complain(data.error());
  if (command.json) {
    std::printf("%s\n", dump_json(*data).c_str());
    return kExitDone;
  }
  auto figures = bench::draw_figures(*data, *layout);
  if (!figures) log::warn("the page goes without figures: " + figures.error().message);
  const auto page = bench::render_report(*data, figures.value_or(std::map<std::string, std::string>{}), *layout);
  if (!page) return complain(page.error());
  const fs::path out = command.out.empty() ? fs::path(command.run) / "report.html" : fs::path(command.out);
  if (const auto written = write_file_atomic(out, *page); !written) return complain(written.error());
  std::printf("%s\n", out.c_str());
  return kExitDone;
}

}  // namespace kz::app
