// What a person sees of a run: a progress bar, one line a round, and the numbers at the end.
#pragma once

#include <memory>
#include <string>

#include "base/progress.h"
#include "evolve/run.h"

namespace kz::app {

class Console {
 public:
  // quiet: nothing at all (for --json).
  Console(const evolve::EvolveOptions& options, bool quiet);
  evolve::Reporter reporter();
  // Where the time went, and what the run amounted to.
  void finish(const evolve::Store& store, const Json& summary, const fs::path& folder) const;

 private:
  void on_evaluation(const std::string& name, const evolve::EvaluationRecord* done);
  void on_step(const evolve::Place& place, const evolve::StepRecord& record, double left);
  void on_round(int round, const std::map<std::string, double>& numbers);
  void on_progress(const std::string& what, size_t done, size_t total);

  const evolve::EvolveOptions& options_;
  bool quiet_;
  bool evaluating_ = false;
  size_t told_ = 0;
  std::string inner_;
  std::unique_ptr<Progress> bar_;
};

// "12 MB" of a folder and all below it.
std::string disk_text(const fs::path& folder);

}  // namespace kz::app
