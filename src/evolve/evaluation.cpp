#include "evolve/evaluation.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "bench/tasks.h"
#include "corpus/row.h"
#include "evolve/rollouts.h"
#include "evolve/step_metrics.h"

namespace kz::evolve {
namespace {

constexpr uint64_t kBootstrapSeed = 0;  // the interval of equal data is equal

EvaluationSample to_sample(const KernelRollout& r, size_t task, const char* kind, size_t member) {
  EvaluationSample s;
  s.task = static_cast<int64_t>(task);
  s.kind = kind;
  s.member = static_cast<int64_t>(member);
  s.text = r.code;
  s.outcome = r.outcome;
  s.reason = r.reason;
  s.scored = r.facts.scored;
  s.right = r.facts.right;
  s.speedup = r.facts.speedup;
  s.verdict = r.verdict;
  return s;
}

void put_numbers(EvaluationRecord& e, int samples, const BookCounts& counts) {
  e.numbers["accuracy"] = mean_of(task_accuracy(e, "sample"));
  e.numbers["greedy"] = mean_of(task_accuracy(e, "greedy"));
  e.numbers["pass8"] = mean_of(task_pass_at_k(e, std::min(8, samples)));
  e.numbers["tasks"] = static_cast<double>(e.tasks.size());
  e.numbers["samples"] = samples;
  e.numbers["verdicts"] = static_cast<double>(counts.verdicts);
  e.numbers["hits"] = static_cast<double>(counts.hits);
  const auto unscored = std::count_if(e.samples.begin(), e.samples.end(), [](const auto& s) { return !s.scored; });
  e.numbers["unscored"] = static_cast<double>(unscored);
}

}  // namespace

Result<std::vector<EvaluationTask>> evaluation_tasks(const EvaluationOptions& options,
                                                     const std::vector<std::string>& families) {
  std::vector<EvaluationTask> out;
  if (options.count == 0) return out;
  if (!options.tasks.empty()) {
    KZ_ASSIGN(const auto tasks, bench::load_tasks(options.tasks));
    for (const auto& t : tasks) {
      if (out.size() < static_cast<size_t>(options.count)) out.push_back({t.name, "", t.module});
    }
    return out;
  }
  corpus::ChainOptions chain;
  chain.families = families;
  chain.lengths = options.lengths;
  KZ_ASSIGN(const auto tasks, corpus::make_heldout(static_cast<size_t>(options.count), options.corpus_seed, chain));
  for (const auto& t : tasks) out.push_back({t.id, t.sequence, t.module});
  return out;
}

Result<EvaluationRecord> evaluate(Loop& loop, const std::vector<EvaluationTask>& tasks, const std::string& name,
                                  uint64_t seed, int64_t unit, int64_t step) {
  const int samples = loop.options.evaluation.samples;
  Stopwatch watch;
  EvaluationRecord out;
  out.name = name;
  out.step = step;
  out.tasks = tasks;
  loop.book.begin(unit);
  KernelRequest request;
  for (const auto& t : tasks) request.sources.push_back(t.source);
  request.samples = samples;
  request.sampling = loop.options.coder.sampling;
  request.sampling.temperature = 1.0;
  request.sampling.top_p = 1.0;
  request.timing = false;
  request.purpose = "evaluation/sample";
  request.seed = seed;
  KZ_ASSIGN(const auto sampled, write_kernels(loop, request, out.numbers));
  request.samples = 1;
  request.sampling.temperature = 0;
  request.purpose = "evaluation/greedy";
  request.first_slot = tasks.size() * static_cast<size_t>(samples);
  KZ_ASSIGN(const auto greedy, write_kernels(loop, request, out.numbers));
  for (size_t t = 0; t < tasks.size(); ++t) {
    for (size_t i = 0; i < sampled[t].size(); ++i) out.samples.push_back(to_sample(sampled[t][i], t, "sample", i));
    out.samples.push_back(to_sample(greedy[t].front(), t, "greedy", 0));
  }
  put_numbers(out, samples, loop.book.counts());
  out.seconds = watch.seconds();
  return out;
}

std::vector<double> task_accuracy(const EvaluationRecord& e, const std::string& kind) {
  std::vector<int> right(e.tasks.size(), 0), scored(e.tasks.size(), 0);
  for (const auto& s : e.samples) {
    if (s.kind != kind || !s.scored) continue;
    ++scored[static_cast<size_t>(s.task)];
    right[static_cast<size_t>(s.task)] += s.right;
  }
  std::vector<double> out;
  for (size_t t = 0; t < e.tasks.size(); ++t) {
    out.push_back(scored[t] > 0 ? static_cast<double>(right[t]) / scored[t] : std::nan(""));
  }
  return out;
}

std::vector<double> task_pass_at_k(const EvaluationRecord& e, int k) {
  std::vector<int> right(e.tasks.size(), 0), scored(e.tasks.size(), 0);
  for (const auto& s : e.samples) {
    if (s.kind != "sample" || !s.scored) continue;
    ++scored[static_cast<size_t>(s.task)];
    right[static_cast<size_t>(s.task)] += s.right;
  }
  std::vector<double> out;
  for (size_t t = 0; t < e.tasks.size(); ++t) {
    out.push_back(bench::pass_at_k(scored[t], right[t], std::min(k, std::max(1, scored[t]))));
  }
  return out;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  int n = 0;
  for (const double v : values) {
    if (std::isfinite(v)) sum += v, ++n;
  }
  return n > 0 ? sum / n : std::nan("");
}

bench::Interval gain(const std::vector<double>& before, const std::vector<double>& after) {
  std::vector<double> a, b;
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    if (!std::isfinite(before[i]) || !std::isfinite(after[i])) continue;
    a.push_back(before[i]);
    b.push_back(after[i]);
  }
  return bench::paired_bootstrap(a, b, kBootstrapSeed);
}

}  // namespace kz::evolve
