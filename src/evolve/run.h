// A run: its folder, and the co-evolution from wherever it stands to its end.
// runs/NAME/: config.toml (resolved), run.db, checkpoints/, tb/, summary.json. A step is: work, save the role's
// checkpoint under the step's name, commit the store, remove the checkpoint before. A kill between any two of these
// loses nothing: the store names the checkpoint that it belongs to, and all random numbers come from seed, purpose and
// step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/tensorboard.h"
#include "evolve/evaluation.h"
#include "evolve/loop.h"
#include "evolve/store.h"

namespace kz::evolve {

// Where a step stands in the run.
struct Place {
  int round = 0;
  Role role = Role::kProposer;
  int index = 0;        // within the phase
  int64_t ordinal = 0;  // of this role, over the run
};
Place place_of(int64_t step, const EvolveOptions& options);

class RunFolder {
 public:
  // Makes the folder with config and an empty store. Error "exists" when there is one.
  static Result<RunFolder> create(const fs::path& folder, const EvolveOptions& options,
                                  const std::string& resolved_toml);
  // Opens one for going on. Error "version" or "io", one line. Errors of a second process at work on it: "busy".
  static Result<RunFolder> open(const fs::path& folder);

  const fs::path& path() const { return path_; }
  Store& store() { return *store_; }
  fs::path checkpoint(const std::string& name) const { return path_ / "checkpoints" / name; }
  // Removes all checkpoints but these.
  Status keep_checkpoints(const std::vector<std::string>& names) const;

 private:
  RunFolder(fs::path path, Store store, Fd lock);
  fs::path path_;
  std::unique_ptr<Store> store_;
  Fd lock_;
};

// Who is told what happens; all may be empty.
struct Reporter {
  std::function<void(const std::string& phase, const EvaluationRecord* done)> evaluation;  // null: begins
  std::function<void(const Place&, const StepRecord&, double seconds_left)> step;
  std::function<void(int round, const std::map<std::string, double>& numbers)> round;
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
};

struct RunParts {
  Learner* coder = nullptr;
  Learner* proposer = nullptr;
  PromptFormat coder_format = PromptFormat::kNano, proposer_format = PromptFormat::kNano;
  Judge* judge = nullptr;
  const Store* replay = nullptr;  // verdicts come from there
  std::vector<EvaluationTask> tasks;
  std::vector<std::vector<std::string>> lists;  // used when the run is new; a resumed run has its own
};

// Evaluates, steps and evaluates again, from the last commit on; returns when the run is finished. Both learners hold
// their start; their checkpoints are loaded from here.
Status run_evolution(RunFolder& run, const EvolveOptions& options, RunParts& parts, const Reporter& reporter);

}  // namespace kz::evolve
