// Evaluation on held-out modules: n samples each at temperature 1 and one greedy answer, with the same sampling seeds
// before and after, so that a gain is paired. Unscored samples are left out; a module with none scored has no accuracy.
#pragma once

#include <string>
#include <vector>

#include "bench/metrics.h"
#include "evolve/loop.h"

namespace kz::evolve {

// Held-out tasks as the config asks for them: a folder in KernelBench form, or made by the corpus.
Result<std::vector<EvaluationTask>> evaluation_tasks(const EvaluationOptions& options,
                                                     const std::vector<std::string>& families);

// `unit` is the book's: -1 before, -2 after. Numbers: accuracy, greedy, pass8, tasks, samples, unscored, verdicts,
// hits, …
Result<EvaluationRecord> evaluate(Loop& loop, const std::vector<EvaluationTask>& tasks, const std::string& name,
                                  uint64_t seed, int64_t unit, int64_t step);

// Accuracy of each task over its scored samples of `kind` ("sample" | "greedy"); NaN where none was scored.
std::vector<double> task_accuracy(const EvaluationRecord& evaluation, const std::string& kind);
// pass@k of each task, k at most the samples made.
std::vector<double> task_pass_at_k(const EvaluationRecord& evaluation, int k);
// Mean without NaN.
double mean_of(const std::vector<double>& values);
// Mean of after - before over the tasks that have both, with its 95% interval.
bench::Interval gain(const std::vector<double>& before, const std::vector<double>& after);

}  // namespace kz::evolve
