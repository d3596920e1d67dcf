#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "app/keck/commands.h"
#include "app/keck/files.h"
#include "app/keck/judge_here.h"
#include "app/keck/print.h"
#include "app/text_io.h"

namespace kz::keck {
namespace {

int exit_code(Outcome outcome) {
  if (outcome == Outcome::kPass) return kExitPass;
  return outcome == Outcome::kFail ? kExitFail : kExitUnscored;
}

Result<Verdict> judge(const CheckCommand& command, const EvaluationRequest& request) {
  if (!command.where.server.empty()) {
    KZ_ASSIGN(const Client client, client_for(command.where));
    return client.evaluate(request);
  }
  KZ_ASSIGN(const auto evaluator, evaluator_for(command.where));
  const std::atomic<bool> never{false};
  return evaluator->evaluate(request, never);
}

// What a person needs to look at a verdict again, or to make it again.
Status keep(const fs::path& folder, const EvaluationRequest& request, const Verdict& verdict) {
  KZ_TRY(make_dirs(folder));
  EvaluationRequest again = request;
  if (verdict.seed != 0) again.seed = verdict.seed;  // 0: it ended before any input was drawn
  KZ_TRY(write_file_atomic(folder / "module.py", request.module));
  KZ_TRY(write_file_atomic(folder / "kernel.py", request.candidate));
  KZ_TRY(write_file_atomic(folder / "request.json", dump_json(to_json(again), 2) + "\n"));
  KZ_TRY(write_file_atomic(folder / "verdict.json", dump_json(to_json(verdict), 2) + "\n"));
  KZ_TRY(write_file_atomic(folder / "build.log", verdict.build.log));
  return write_file_atomic(folder / "output.log", verdict.log_tail);
}

}  // namespace

int check(const CheckCommand& command) {
  EvaluationRequest request;
  auto module = app::read_source(command.module);
  if (!module) return complain(module.error());
  auto candidate = app::read_source(command.candidate);
  if (!candidate) return complain(candidate.error());
  request.module = std::move(*module);
  request.candidate = std::move(*candidate);
  request.backend = command.backend;
  request.check = command.check;
  request.timing = command.timing;
  request.seed = command.seed;

  const auto verdict = judge(command, request);
  if (!verdict) return complain(verdict.error());
  if (!command.keep.empty())
    if (const auto kept = keep(command.keep, request, *verdict); !kept) return complain(kept.error());
  if (command.json)
    std::printf("%s\n", dump_json(to_json(*verdict), 2).c_str());
  else
    std::fputs(pretty(*verdict, {terminal_has_colour(STDOUT_FILENO), command.candidate}).c_str(), stdout);
  return exit_code(verdict->outcome);
}

}  // namespace kz::keck
