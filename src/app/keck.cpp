// The command line `keck`: arguments only; each command has a file of its own in keck/.
#include <CLI/CLI.hpp>

#include "app/keck/commands.h"
#include "app/text_io.h"
#include "base/log.h"
#include "keck/sandbox/capabilities.h"

namespace {

using namespace kz::keck;

void add_where(CLI::App& command, Where& where) {
  command.add_option("--server", where.server,
                     "URL of a running `keck serve`; without it this command judges by itself");
  command.add_option("--state", where.state, "folder of caches (default: ~/.cache/kernelzero/keck)");
  command.add_option("--sandbox", where.sandbox, "auto, strong or weak")
      ->check(CLI::IsMember({"auto", "strong", "weak"}));
}

void add_serve(CLI::App& app, ServeCommand& serve) {
  auto* command = app.add_subcommand("serve", "Serve verdicts over HTTP.");
  command->add_option("--config", serve.config, "TOML file; an unknown key is an error");
  command->add_option("--listen", serve.listen, "HOST:PORT (default 127.0.0.1:8787; port 0: any free one)");
  command->add_option("--state", serve.state, "folder of journal and caches (default: ~/.cache/kernelzero/keck)");
  command->add_option("--set", serve.overrides, "a.b=c, over the config; may be repeated")->expected(1)->take_all();
  command->add_option("--workers", serve.workers, "candidates in flight (default: cores)")->check(CLI::Range(1, 4096));
  command->add_option("--sandbox", serve.sandbox, "auto, strong or weak")
      ->check(CLI::IsMember({"auto", "strong", "weak"}));
  command->add_option("--port-file", serve.port_file, "write the address that was bound there");
  command->add_flag("--die-with-parent", serve.die_with_parent,
                    "drain and end when the process that started this ends");
}

void add_check(CLI::App& app, CheckCommand& check) {
  auto* command = app.add_subcommand("check", "Judge one kernel.");
  command->add_option("module", check.module, "Python file with Model, get_inputs, get_init_inputs")->required();
  command->add_option("kernel", check.candidate, "Python file with ModelNew")->required();
  command->add_option("--backend", check.backend, "cpp, triton or cuda (default: cuda where a GPU is, else cpp)")
      ->check(CLI::IsMember({"cpp", "triton", "cuda"}));
  command->add_option("--check", check.check, "strict, kernelbench or keck-v0")
      ->check(CLI::IsMember({"strict", "kernelbench", "keck-v0"}));
  command->add_option("--seed", check.seed, "of the inputs, to reproduce a verdict (default: secret)");
  command->add_option("--keep", check.keep, "leave sources, logs and verdict in this folder");
  command->add_flag("!--no-timing", check.timing, "correctness only");
  command->add_flag("--json", check.json, "print the verdict as JSON");
  add_where(*command, check.where);
}

void add_check_module(CLI::App& app, CheckModuleCommand& check) {
  auto* command = app.add_subcommand("check-module", "Pass a module through the gate of the Proposer.");
  command->add_option("module", check.module, "Python file with Model, get_inputs, get_init_inputs")->required();
  command->add_option("--apis", check.apis, "the APIs that it must use, exactly: torch.relu,torch.sum")->delimiter(',');
  command->add_option("--seed", check.seed, "of the inputs (default: secret)");
  command->add_flag("--json", check.json, "print the report as JSON");
  add_where(*command, check.where);
}

void add_doctor(CLI::App& app, DoctorCommand& doctor) {
  auto* command = app.add_subcommand("doctor", "Show what this host gives, what is missing, and the remedy.");
  command->add_option("--state", doctor.state, "folder of caches (default: ~/.cache/kernelzero/keck)");
  command->add_option("--sandbox", doctor.sandbox, "the level to look at: auto, strong or weak")
      ->check(CLI::IsMember({"auto", "strong", "weak"}));
  command->add_flag("--quick", doctor.quick, "leave out the start of zygote, judge and build broker");
  command->add_flag("--json", doctor.json, "print it as JSON");
}

int run(const CLI::App& app, const ServeCommand& serve, const CheckCommand& check,
        const CheckModuleCommand& check_module, const DoctorCommand& doctor) {
  if (app.got_subcommand("serve")) return kz::keck::serve(serve);
  if (app.got_subcommand("check")) return kz::keck::check(check);
  if (app.got_subcommand("check-module")) return kz::keck::check_module(check_module);
  if (app.got_subcommand("doctor")) return kz::keck::doctor(doctor);
  return kz::keck::openapi();
}

}  // namespace

int main(int argc, char** argv) {
  kz::log::set_name("keck");

  CLI::App app(
      "Keck says what is true about a kernel: correctness, speed, policy.\n"
      "Exit codes: 0 pass, 1 fail, 2 usage, file, config or port, 3 unscored.",
      "keck");
  app.require_subcommand(1);
  ServeCommand serve;
  CheckCommand check;
  CheckModuleCommand check_module;
  DoctorCommand doctor;
  add_serve(app, serve);
  add_check(app, check);
  add_check_module(app, check_module);
  add_doctor(app, doctor);
  app.add_subcommand("openapi", "Print the description of the HTTP API.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    return complain({"usage", std::string(e.what()) + " (keck --help shows the usage)"});
  }
  const int code = run(app, serve, check, check_module, doctor);
  const auto written = kz::app::flush_output();
  return written ? code : complain(written.error());
}
