#include <algorithm>
#include <cstdio>

#include "apis/sampler.h"
#include "app/kernelzero/console.h"
#include "app/kernelzero/memory_watch.h"
#include "app/kernelzero/support.h"
#include "base/clock.h"
#include "corpus/family.h"
#include "evolve/keck_judge.h"
#include "evolve/run.h"
#include "evolve/summary.h"
#include "evolve/trainer_learner.h"

namespace kz::app {
namespace {

// A judge that nobody may ask: a replay that needs it has met something that the other run had not.
class NoJudge : public evolve::Judge {
 public:
  void ask(size_t, const keck::EvaluationRequest&) override {}
  void ask(size_t, const keck::ModuleRequest&) override {}
  std::optional<std::pair<size_t, keck::Verdict>> next_verdict(std::chrono::duration<double>) override {
    return std::nullopt;
  }
  std::optional<std::pair<size_t, keck::ModuleReport>> next_report(std::chrono::duration<double>) override {
    return std::nullopt;
  }
};

Result<std::vector<std::vector<std::string>>> make_lists(const evolve::EvolveOptions& o, const Layout& layout) {
  KZ_ASSIGN(const auto catalogue, apis::Catalogue::load(layout.root / "data/apis/catalogue.json"));
  KZ_ASSIGN(const auto counts, apis::Cooccurrence::load(layout.root / "data/apis/cooccurrence.json", catalogue));
  apis::ListOptions l;
  l.lists = static_cast<size_t>(o.lists.count);
  l.seed = derive_seed(o.seed, "lists");
  l.sizes.clear();
  for (const double size : o.lists.sizes) l.sizes.push_back(static_cast<int>(size));
  l.subset = o.lists.families.empty() ? o.lists.apis : corpus::apis_of(o.lists.families);
  l.distinct = true;
  return apis::sample_lists(catalogue, counts, l);
}

Status check_families(const std::vector<std::string>& families) {
  for (const auto& f : families) {
    if (!corpus::find_family(f)) return fail("config", "lists.families: unknown family '" + f + "'");
  }
  return {};
}

// A finished run makes room for a new one of its name; one that was interrupted is gone on with.
Status make_room(const fs::path& folder, bool& resume) {
  resume = false;
  if (!fs::exists(folder / "run.db")) return {};
  bool finished = true;
  {
    KZ_ASSIGN(const auto store, evolve::Store::open_read_only(folder / "run.db"));
    KZ_ASSIGN(const auto meta, store.meta());
    finished = meta.count("finished") > 0;
  }
  if (!finished) {
    resume = true;
    return {};
  }
  const fs::path previous = folder.string() + ".previous";
  std::error_code ec;
  fs::remove_all(previous, ec);
  fs::rename(folder, previous, ec);
  if (ec) return fail("io", folder.string() + ": cannot make room: " + ec.message());
  return {};
}

// What is to be done, before anything is made: a run that can't start leaves no folder behind.
struct Plan {
  evolve::EvolveOptions options;
  std::string resolved;
  fs::path folder;
  bool resume = false;
};

Result<Plan> make_plan(const EvolveCommand& command, const Layout& layout, bool again) {
  if (!command.resume.empty() && !command.overrides.empty()) {
    return fail("usage", "--set does not go with --resume: a run keeps its config");
  }
  if (command.resume.empty() && command.config.empty()) return fail("usage", "give a config file, or --resume RUN");
  Plan plan;
  plan.resume = !command.resume.empty();
  const fs::path file = plan.resume ? fs::path(command.resume) / "config.toml" : find_path(command.config, layout);
  if (plan.resume && !fs::exists(fs::path(command.resume) / "run.db")) {
    return fail("io", command.resume + " is no run folder: it has no run.db");
  }
  KZ_ASSIGN(auto config, Config::load(file, command.overrides));
  KZ_ASSIGN(plan.options, evolve::evolve_options(config));
  KZ_TRY(check_families(plan.options.lists.families));
  plan.resolved = config.resolved();
  plan.folder = plan.resume ? fs::path(command.resume) : fs::path(command.runs) / plan.options.name;
  if (again && !plan.resume) {
    bool interrupted = false;
    KZ_TRY(make_room(plan.folder, interrupted));
    if (interrupted) {
      EvolveCommand other = command;
      other.resume = plan.folder.string();
      other.overrides.clear();
      if (!command.json)
        std::printf("Going on with %s, which was interrupted. (Remove it to start anew.)\n", plan.folder.c_str());
      return make_plan(other, layout, false);
    }
  }
  // Known errors of the folder come before the long work.
  if (plan.resume) {
    KZ_TRY(evolve::Store::open_read_only(plan.folder / "run.db").map([](const auto&) {}));
  } else if (fs::exists(plan.folder / "run.db")) {
    return fail("exists", plan.folder.string() + " holds a run already: go on with --resume " + plan.folder.string() +
                              ", or choose another name with --set name=…");
  }
  return plan;
}

Result<evolve::RunFolder> open_run(const Plan& plan) {
  if (plan.resume) return evolve::RunFolder::open(plan.folder);
  return evolve::RunFolder::create(plan.folder, plan.options, plan.resolved);
}

Result<int> work(const EvolveCommand& command, bool again) {
  const double begin = steady_seconds();
  KZ_ASSIGN(const Layout layout, find_layout());
  KZ_ASSIGN(const Plan plan, make_plan(command, layout, again));
  evolve::EvolveOptions o = plan.options;
  o.model.start = find_path(o.model.start, layout).string();
  if (!o.model.proposer.empty()) o.model.proposer = find_path(o.model.proposer, layout).string();
  if (!o.evaluation.tasks.empty()) o.evaluation.tasks = find_path(o.evaluation.tasks, layout).string();
  MemoryWatch memory;

  evolve::RunParts parts;
  std::optional<evolve::Store> replay;
  if (!command.replay.empty()) {
    KZ_ASSIGN(auto store, evolve::Store::open_read_only(fs::path(command.replay) / "run.db"));
    replay.emplace(std::move(store));
    parts.replay = &*replay;
  }
  KZ_ASSIGN(parts.tasks, evolve::evaluation_tasks(o.evaluation, o.lists.families));
  KZ_ASSIGN(parts.lists, make_lists(o, layout));
  const auto coder_options = evolve::trainer_options(o, evolve::Role::kCoder);
  const auto proposer_options = evolve::trainer_options(o, evolve::Role::kProposer);
  KZ_ASSIGN(parts.coder_format, evolve::prompt_format(o.model.format, coder_options.model));
  KZ_ASSIGN(parts.proposer_format, evolve::prompt_format(o.model.format, proposer_options.model));
  lm::set_threads(o.model.threads);
  KZ_ASSIGN(auto coder_trainer, train::Trainer::open(coder_options));
  KZ_ASSIGN(auto proposer_trainer, train::Trainer::open(proposer_options));
  evolve::TrainerLearner coder(std::move(coder_trainer)), proposer(std::move(proposer_trainer));
  parts.coder = &coder;
  parts.proposer = &proposer;

  Keck keck;
  std::unique_ptr<evolve::Judge> judge;
  if (replay) {
    judge = std::make_unique<NoJudge>();
  } else {
    if (!command.json) std::printf("Starting Keck.\n"), std::fflush(stdout);
    KZ_ASSIGN(keck, open_keck(o.keck.url, o.keck.workers, layout, o.keck.token));
    judge = std::make_unique<evolve::KeckJudge>(*keck.client, o.keck.in_flight);
  }
  parts.judge = judge.get();

  KZ_ASSIGN(auto run, open_run(plan));
  Console console(o, command.json);
  KZ_TRY(evolve::run_evolution(run, o, parts, console.reporter()));
  double wall_s = steady_seconds() - begin, peak_mb = memory.peak_mb();
  if (const auto before = read_file(run.path() / "summary.json")) {  // of an invocation that came to the end earlier
    const Json old = Json::parse(*before, nullptr, /*allow_exceptions=*/false);
    if (old.is_object() && old.contains("wall_s") && old["wall_s"].is_number()) wall_s += old["wall_s"].get<double>();
    if (old.is_object() && old.contains("peak_rss_mb") && old["peak_rss_mb"].is_number())
      peak_mb = std::max(peak_mb, old["peak_rss_mb"].get<double>());
  }
  KZ_ASSIGN(const Json summary, evolve::summary_json(run.store(), wall_s, peak_mb));
  KZ_TRY(write_file_atomic(run.path() / "summary.json", dump_json(summary, 1) + "\n"));
  console.finish(run.store(), summary, run.path());
  if (command.json) std::printf("%s\n", dump_json(summary, 1).c_str());
  return static_cast<int>(kExitDone);
}

}  // namespace

int evolve(const EvolveCommand& command) {
  const auto result = work(command, false);
  return result ? *result : complain(result.error());
}

int demo(const EvolveCommand& command) {
  EvolveCommand c = command;
  c.config = "configs/demo.toml";
  if (!c.json) {
    std::printf(
        "Two nano models on this CPU: the Proposer writes Torch modules, the Coder writes C++ kernels for them, and "
        "Keck\n"
        "compiles, runs and judges every kernel in a sandbox. The Proposer is paid for modules that the Coder gets "
        "right half\n"
        "of the time, the Coder for right kernels, and for fast ones once it is reliably right.\n\n");
    std::fflush(stdout);
  }
  const auto result = work(c, true);
  return result ? *result : complain(result.error());
}

}  // namespace kz::app
