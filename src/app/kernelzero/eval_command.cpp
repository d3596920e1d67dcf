#include <cmath>
#include <cstdio>

#include "app/kernelzero/ask.h"
#include "base/progress.h"
#include "bench/metrics.h"
#include "bench/report.h"
#include "bench/tasks.h"
#include "evolve/evaluation.h"

namespace kz::app {
namespace {

std::vector<int> ks(int samples) {
  std::vector<int> out;
  for (const int k : {1, 2, 4, 5, 8, 10, 16, 32, 64, 100}) {
    if (k <= samples) out.push_back(k);
  }
  return out;
}

Json numbers(const std::vector<bench::TaskSamples>& tasks, int samples) {
  Json pass = Json::object(), fast = Json::object();
  for (const int k : ks(samples)) {
    pass[std::to_string(k)] = json_number(bench::fast_p_at_k(tasks, 0, k));
    for (const double p : bench::kFastP) {
      char name[32];
      std::snprintf(name, sizeof name, "%g", p);
      fast[name][std::to_string(k)] = json_number(bench::fast_p_at_k(tasks, p, k));
    }
  }
  return {{"pass_at_k", pass}, {"fast_p_at_k", fast}};
}

Result<int> run(const EvalCommand& command) {
  KZ_ASSIGN(auto tasks, bench::load_tasks(command.tasks));
  if (command.limit > 0 && tasks.size() > static_cast<size_t>(command.limit))
    tasks.resize(static_cast<size_t>(command.limit));
  Asking::Options options{command.model,       command.format,         command.device, command.check, command.where,
                          command.temperature, command.max_new_tokens, command.seed,   command.out};
  KZ_ASSIGN(const auto asking, Asking::open(options));
  evolve::KernelRequest request;
  for (const auto& t : tasks) request.sources.push_back(t.module);
  request.samples = command.samples;
  request.sampling = asking->options().coder.sampling;
  request.timing = command.timing;
  request.purpose = "eval";
  request.seed = command.seed;
  Progress progress("kernels", request.sources.size() * static_cast<uint64_t>(command.samples), command.json);
  size_t told = 0;
  asking->on_progress = [&](const std::string& what, size_t done, size_t) {
    if (what == "verdicts" && done > told) progress.advance(done - told), told = done;
  };
  evolve::Loop loop = asking->loop();
  loop.book.begin(0);
  std::map<std::string, double> metrics;
  KZ_ASSIGN(const auto groups, evolve::write_kernels(loop, request, metrics));
  progress.finish();

  std::vector<bench::TaskSamples> samples;
  Json rows = Json::array();
  int scored = 0, unscored = 0;
  for (size_t t = 0; t < tasks.size(); ++t) {
    bench::TaskSamples of_task;
    std::map<std::string, int> reasons;
    int right = 0;
    for (const auto& r : groups[t]) {
      if (!r.facts.scored) {
        ++unscored;
        ++reasons["unscored: " + r.reason];
        continue;
      }
      ++scored;
      right += r.facts.right;
      if (!r.facts.right) ++reasons[r.reason];
      of_task.push_back({r.facts.right, std::isfinite(r.facts.speedup) ? r.facts.speedup : 0});
    }
    rows.push_back({{"name", tasks[t].name},
                    {"level", tasks[t].level},
                    {"scored", of_task.size()},
                    {"right", right},
                    {"reasons", reasons}});
    samples.push_back(std::move(of_task));
  }
  Json out = numbers(samples, command.samples);
  out["model"] = command.model;
  out["backend"] = asking->options().keck.backend;
  out["check"] = command.check;
  out["samples"] = command.samples;
  out["scored"] = scored;
  out["unscored"] = unscored;
  out["tasks"] = rows;
  if (command.json) {
    std::printf("%s\n", dump_json(out, 1).c_str());
  } else {
    std::printf("%zu tasks, %d samples each, %d scored, %d unscored\n", tasks.size(), command.samples, scored,
                unscored);
    for (const auto& [k, value] : out["pass_at_k"].items())
      std::printf("pass@%-4s %s\n", k.c_str(), percent(number_from_json(value)).c_str());
    for (const double p : bench::kFastP) {
      if (p <= 0 || !command.timing) continue;
      std::printf("fast_%g@1 %s\n", p, percent(bench::fast_p_at_k(samples, p, 1)).c_str());
    }
  }
  return static_cast<int>(scored > 0 ? kExitDone : kExitUnscored);
}

}  // namespace

int evaluate(const EvalCommand& command) {
  const auto result = run(command);
  return result ? *result : complain(result.error());
}

}  // namespace kz::app
