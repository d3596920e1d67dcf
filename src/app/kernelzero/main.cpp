// The command line `kernelzero`: arguments only; each command has a file of its own.
#include <CLI/CLI.hpp>

#include "app/kernelzero/commands.h"
#include "app/text_io.h"
#include "base/log.h"

namespace {

using namespace kz::app;

void add_where(CLI::App& c, Where& where) {
  c.add_option("--server", where.server, "URL of a running `keck serve`; without it one is started for this command");
  c.add_option("--backend", where.backend, "cpp, triton or cuda")->check(CLI::IsMember({"cpp", "triton", "cuda"}));
  c.add_option("--workers", where.workers, "candidates in flight of our own server (default: cores)")
      ->check(CLI::Range(1, 4096));
}

// Options of every command that asks a model.
template <typename Command>
void add_model(CLI::App& c, Command& command) {
  c.add_option("--model", command.model,
               "folder of a model, or http://HOST:PORT of an OpenAI-compatible server (#NAME picks its model)")
      ->required();
  c.add_option("--samples", command.samples, "answers of the model")->capture_default_str()->check(CLI::Range(1, 4096));
  c.add_option("--temperature", command.temperature, "0 is greedy")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 10.0));
  c.add_option("--max-new-tokens", command.max_new_tokens, "of one answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  c.add_option("--seed", command.seed, "of sampling")->capture_default_str();
  c.add_option("--format", command.format, "auto, nano or chatml")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "nano", "chatml"}));
  c.add_option("--device", command.device, "cpu, cuda or cuda:N")->capture_default_str();
  add_where(c, command.where);
}

void add_evolve(CLI::App& app, EvolveCommand& evolve, EvolveCommand& demo) {
  auto* c = app.add_subcommand("evolve", "Run the co-evolution of Proposer and Coder.");
  c->add_option("config", evolve.config, "TOML file, for example configs/demo.toml");
  c->add_option("--resume", evolve.resume, "go on with this run folder");
  c->add_option("--replay", evolve.replay,
                "take the verdicts from this run folder instead of Keck: repeats it bit for bit");
  c->add_option("--runs", evolve.runs, "folder that run folders are made in")->capture_default_str();
  c->add_option("--set", evolve.overrides, "a.b=c, over the config; may be repeated")->expected(1)->take_all();
  c->add_flag("--json", evolve.json, "print the summary as JSON");
  auto* d = app.add_subcommand("demo", "Watch two nano models improve each other on this CPU.");
  d->add_option("--runs", demo.runs, "folder that run folders are made in")->capture_default_str();
  d->add_option("--set", demo.overrides, "a.b=c, over configs/demo.toml; may be repeated")->expected(1)->take_all();
  d->add_flag("--json", demo.json, "print the summary as JSON");
}

void add_ask(CLI::App& app, EvalCommand& eval, ProposeCommand& propose, CodeCommand& code) {
  auto* e = app.add_subcommand("eval", "Evaluate a model on a folder of KernelBench tasks.");
  e->add_option("--tasks", eval.tasks, "folder of *.py with Model, get_inputs, get_init_inputs")->required();
  e->add_option("--limit", eval.limit, "only the first N tasks (default: all)");
  e->add_option("--check", eval.check, "strict, kernelbench or keck-v0")
      ->capture_default_str()
      ->check(CLI::IsMember({"strict", "kernelbench", "keck-v0"}));
  e->add_option("--out", eval.out, "keep every answer and verdict in this folder (and go on there after a kill)");
  e->add_flag("!--no-timing", eval.timing, "correctness only");
  e->add_flag("--json", eval.json, "print the result as JSON");
  add_model(*e, eval);
  auto* p =
      app.add_subcommand("propose", "Let a model write modules for a list of APIs, and pass them through the gate.");
  p->add_option("--apis", propose.apis, "torch.relu,torch.softmax")->required()->delimiter(',');
  p->add_flag("--json", propose.json, "print modules and reports as JSON");
  add_model(*p, propose);
  auto* c = app.add_subcommand("code", "Let a model write kernels for a module; the best right one is printed.");
  c->add_option("module", code.module, "Python file with Model, get_inputs, get_init_inputs")->required();
  c->add_option("--check", code.check, "strict, kernelbench or keck-v0")
      ->capture_default_str()
      ->check(CLI::IsMember({"strict", "kernelbench", "keck-v0"}));
  c->add_flag("!--no-timing", code.timing, "correctness only");
  c->add_flag("--json", code.json, "print kernel, verdict and all samples as JSON");
  add_model(*c, code);
}

void add_apis(CLI::App& app, ApisCommand& apis) {
  auto* c = app.add_subcommand("apis", "The Torch APIs that modules are made of.");
  c->require_subcommand(1);
  c->add_subcommand("list", "All of the catalogue.")->add_flag("--json", apis.json, "an array");
  c->add_subcommand("stats", "Counts, and which stand together.")->add_flag("--json", apis.json, "an object");
  auto* s = c->add_subcommand("sample", "Lists of APIs as the Proposer is asked for them.");
  s->add_option("--lists", apis.lists, "how many")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  s->add_option("--seed", apis.seed, "of the sampler")->capture_default_str();
  s->add_option("--sizes", apis.sizes, "APIs a list: 2,3")->capture_default_str()->delimiter(',');
  s->add_option("--apis", apis.subset, "only these")->delimiter(',');
  s->add_flag("--json", apis.json, "an array of arrays");
}

void add_corpus(CLI::App& app, CorpusCommand& corpus) {
  auto* c = app.add_subcommand("corpus", "Rows of modules and right kernels, for a cold start.");
  c->require_subcommand(1);
  auto* m = c->add_subcommand("make", "Make rows by our own lowering; Keck admits each.");
  m->add_option("file", corpus.file, "JSONL file to write")->required();
  m->add_option("--rows", corpus.rows, "in all")->capture_default_str()->check(CLI::Range(1, 100000000));
  m->add_option("--per-family", corpus.per_family, "at least, a family and backend")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  m->add_option("--families", corpus.families, "only these (default: all)")->delimiter(',');
  m->add_option("--backends", corpus.backends, "cpp,triton")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::IsMember({"cpp", "triton"}));
  m->add_option("--seed", corpus.seed, "of the rows")->capture_default_str();
  m->add_flag("--json", corpus.json, "print the report as JSON");
  auto* k = c->add_subcommand("check", "Ask Keck again about every row of a file.");
  k->add_option("file", corpus.file, "JSONL rows {backend, module, candidate}")->required();
  k->add_flag("--json", corpus.json, "print the report as JSON");
  for (auto* s : {m, k}) {
    s->add_option("--server", corpus.where.server, "URL of a running `keck serve`; without it one is started");
    s->add_option("--workers", corpus.where.workers, "of our own server (default: cores)")->check(CLI::Range(1, 4096));
  }
}

// The exit code of the command that was asked for.
int run(int argc, char** argv) {
  kz::log::set_name("kernelzero");
  CLI::App app(
      "Two language models that make each other better at writing kernels.\n"
      "Exit codes: 0 done, 1 not, 2 usage, file, config or port, 3 unscored.",
      "kernelzero");
  app.require_subcommand(1);
  EvolveCommand evolve_command, demo_command;
  SftCommand sft_command;
  EvalCommand eval_command;
  ProposeCommand propose_command;
  CodeCommand code_command;
  ApisCommand apis_command;
  CorpusCommand corpus_command;
  ReportCommand report_command;
  std::string model;
  bool json = false;
  add_evolve(app, evolve_command, demo_command);
  auto* sft_app = app.add_subcommand("sft", "Make a cold start by supervised fine-tuning on fresh rows.");
  sft_app->add_option("config", sft_command.config, "TOML file, for example configs/nano.toml")->required();
  sft_app->add_option("--set", sft_command.overrides, "a.b=c, over the config; may be repeated")
      ->expected(1)
      ->take_all();
  sft_app->add_flag("--json", sft_command.json, "print the report as JSON");
  add_ask(app, eval_command, propose_command, code_command);
  add_apis(app, apis_command);
  add_corpus(app, corpus_command);
  auto* report_app = app.add_subcommand("report", "One HTML page of a run: dynamics, frontier, time, single rollouts.");
  report_app->add_option("run", report_command.run, "run folder")->required();
  report_app->add_option("--out", report_command.out, "HTML file (default: report.html in the run folder)");
  report_app->add_option("--rollouts", report_command.rollouts, "single rollouts to show")
      ->capture_default_str()
      ->check(CLI::Range(0, 100000));
  report_app->add_flag("--json", report_command.json, "print the data instead of the page");
  auto* model_app = app.add_subcommand("model", "About a model folder.");
  model_app->require_subcommand(1);
  auto* info = model_app->add_subcommand("info", "Shape, size and prompt format.");
  info->add_option("model", model, "folder")->required();
  info->add_flag("--json", json, "as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    return complain({"usage", std::string(e.what()) + " (kernelzero --help shows the usage)"});
  }
  if (app.got_subcommand("demo")) return kz::app::demo(demo_command);
  if (app.got_subcommand("evolve")) return kz::app::evolve(evolve_command);
  if (app.got_subcommand("sft")) return kz::app::sft(sft_command);
  if (app.got_subcommand("eval")) return kz::app::evaluate(eval_command);
  if (app.got_subcommand("propose")) return kz::app::propose(propose_command);
  if (app.got_subcommand("code")) return kz::app::code(code_command);
  if (app.got_subcommand("report")) return kz::app::report(report_command);
  if (app.got_subcommand("model")) return kz::app::model_info(model, json);
  if (auto* apis = app.get_subcommand("apis"); apis->parsed()) {
    if (apis->got_subcommand("list")) return kz::app::apis_list(apis_command);
    if (apis->got_subcommand("stats")) return kz::app::apis_stats(apis_command);
    return kz::app::apis_sample(apis_command);
  }
  auto* corpus = app.get_subcommand("corpus");
  return corpus->got_subcommand("make") ? kz::app::corpus_make(corpus_command) : kz::app::corpus_check(corpus_command);
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run(argc, argv);
  const auto written = flush_output();
  return written ? code : complain(written.error());
}
