#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdio>

#include "app/keck/commands.h"
#include "app/keck/facts.h"
#include "app/keck/files.h"
#include "app/keck/judge_here.h"
#include "app/keck/print.h"
#include "base/clock.h"
#include "keck/sandbox/capabilities.h"

namespace kz::keck {
namespace {

Json sandbox_facts(const std::string& configured, Findings& findings) {
  const auto capabilities = sandbox::probe_capabilities();
  const auto level = sandbox::choose(capabilities, configured);
  if (!level) {
    findings.missing("sandbox", level.error().message, "");
    return {{"level", nullptr}, {"host", sandbox::to_json(capabilities)}};
  }
  findings.found("sandbox", std::string(sandbox::to_string(*level)));
  const auto missing = sandbox::missing(capabilities, *level);
  for (const auto& line : missing) findings.note("sandbox", line);
  return {{"level", sandbox::to_string(*level)}, {"missing", missing}, {"host", sandbox::to_json(capabilities)}};
}

// The whole chain, as `keck serve` starts it, with its self-tests.
Json evaluator_facts(const DoctorCommand& command, Findings& findings) {
  const Stopwatch watch;
  const auto evaluator = evaluator_for({"", command.state, command.sandbox});
  if (!evaluator) {
    findings.missing("start", evaluator.error().message, "");
    return nullptr;
  }
  char text[96];
  std::snprintf(text, sizeof text, "zygote, judge and build broker up after %.1f s", watch.seconds());
  findings.found("start", text);
  return (*evaluator)->capabilities();
}

}  // namespace

int doctor(const DoctorCommand& command) {
  Findings findings;
  Json facts = Json::object();
  const auto layout = find_layout();
  if (layout) {
    facts["layout"] = layout_facts(*layout, findings);
    facts["state"] = state_facts(state_folder(command.state, *layout), findings);
    facts["python"] = python_facts(*layout, findings);
  } else {
    findings.missing("layout", layout.error().message, "");
  }
  facts["compilers"] = compiler_facts(findings);
  facts["devices"] = device_facts(findings);
  facts["sandbox"] = sandbox_facts(command.sandbox, findings);
  if (!command.quick && findings.good()) facts["evaluator"] = evaluator_facts(command, findings);
  facts["findings"] = findings.json();
  facts["ok"] = findings.good();
  if (command.json)
    std::printf("%s\n", dump_json(facts, 2).c_str());
  else
    std::fputs(findings.text(terminal_has_colour(STDOUT_FILENO)).c_str(), stdout);
  return findings.good() ? kExitPass : kExitUsage;
}

}  // namespace kz::keck
