#include "app/kernelzero/run_cli.h"

#include "base/layout.h"

namespace kz::app {

Ran run_cli(const std::vector<std::string>& arguments, std::optional<double> kill_after_s) {
  const auto layout = find_layout();
  if (!layout) return {.exit_code = -1, .out = "", .err = layout.error().message};
  return run_to_end(layout->bin / "kernelzero", arguments, {.output = "", .kill_after_s = kill_after_s});
}

}  // namespace kz::app
