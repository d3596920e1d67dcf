#include <unistd.h>

#include <cstdio>

#include "app/keck/commands.h"
#include "app/keck/files.h"
#include "app/keck/judge_here.h"
#include "app/keck/print.h"
#include "app/text_io.h"

namespace kz::keck {
namespace {

Result<ModuleReport> judge(const CheckModuleCommand& command, const ModuleRequest& request) {
  if (!command.where.server.empty()) {
    KZ_ASSIGN(const Client client, client_for(command.where));
    return client.check_module(request);
  }
  KZ_ASSIGN(const auto evaluator, evaluator_for(command.where));
  const std::atomic<bool> never{false};
  return evaluator->check_module(request, never);
}

}  // namespace

int check_module(const CheckModuleCommand& command) {
  auto module = app::read_source(command.module);
  if (!module) return complain(module.error());
  const ModuleRequest request{std::move(*module), command.apis, command.seed};
  const auto report = judge(command, request);
  if (!report) return complain(report.error());
  if (command.json)
    std::printf("%s\n", dump_json(to_json(*report), 2).c_str());
  else
    std::fputs(pretty(*report, {terminal_has_colour(STDOUT_FILENO), command.module}).c_str(), stdout);
  if (report->outcome == Outcome::kPass) return kExitPass;
  return report->outcome == Outcome::kFail ? kExitFail : kExitUnscored;
}

}  // namespace kz::keck
