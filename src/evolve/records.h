// The rows of the run store, as plain data.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "keck/job/verdict.h"

namespace kz::evolve {

// What one verdict is about: content hashes, so that equal texts share it, within a run and from another run's store.
struct VerdictKey {
  std::string module;     // sha256 of the module's source
  std::string candidate;  // sha256 of the candidate's source
  std::string backend;    // with "+time" when timing was asked for
};

struct RecordedVerdict {
  int64_t id = 0;
  int64_t unit = 0;  // the step or evaluation that asked first; see Position
  keck::Verdict verdict;
};

struct RecordedReport {
  int64_t id = 0;
  int64_t unit = 0;
  keck::ModuleReport report;
};

enum class Role { kProposer, kCoder };
enum class ModuleStatus {
  kFresh,     // validated, no l yet
  kFrontier,  // 0 < l < 1 when last seen
  kHard,      // l = 0: comes back later
  kSolved,    // l = 1: retired
};
std::string_view to_string(Role role);            // "proposer" "coder"
std::string_view to_string(ModuleStatus status);  // "fresh" "frontier" "hard" "solved"

// A module that passed the gate: one entry of the archive.
struct ModuleRecord {
  int64_t id = 0;        // 1 …, in order of admission
  std::string hash;      // canonical hash
  std::string sequence;  // operator sequence, "torch.relu>torch.softmax"
  std::string source;    // canonical source, what the Coder sees
  std::vector<std::string> apis;
  int64_t step = 0;  // that admitted it
  ModuleStatus status = ModuleStatus::kFresh;
  std::optional<double> mean;  // l when last seen
  int64_t seen_step = -1;      // when it was last given to the Coder
  int times_seen = 0;
};

// l of one module in one step.
struct ModuleRound {
  int64_t module = 0;
  int rollouts = 0, scored = 0, right = 0;
};

struct Rollout {
  Role role = Role::kCoder;
  int64_t group = 0;   // within the step
  int64_t member = 0;  // within the group
  int64_t module = 0;  // Coder: the archive's id. Proposer: of the module it wrote, 0 if refused
  std::string task;    // Coder: empty. Proposer: the API list, one a line
  std::string prompt, text, finish;
  int64_t tokens = 0;
  double logprob_sum = 0;
  int64_t verdict = 0;          // Coder: id in verdicts. Proposer: id in reports
  std::string outcome, reason;  // pass, fail, unscored; reason code, or why the gate or the archive refused
  bool right = false;           // Proposer: valid
  double speedup = std::numeric_limits<double>::quiet_NaN();
  bool scored = true;
  double base = 0, bonus = 0, advantage = 0;
  std::optional<double> reward;  // nothing where unscored
};

struct StepRecord {
  int64_t step = 0;              // 0 … over the whole run
  int64_t round = 0, index = 0;  // index within the phase
  Role role = Role::kCoder;
  double seconds = 0;
  std::string coder_checkpoint, proposer_checkpoint;  // folders under checkpoints/ that hold the state after this step
  std::map<std::string, double> metrics;              // "coder/accuracy", "time/generate", …
  std::vector<Rollout> rollouts;
  std::vector<ModuleRecord> modules;  // new or changed
  std::vector<ModuleRound> module_rounds;
};

struct EvaluationSample {
  int64_t task = 0;
  std::string kind;  // "sample" (temperature 1) or "greedy"
  int64_t member = 0;
  std::string text, outcome, reason;
  bool scored = true, right = false;
  double speedup = std::numeric_limits<double>::quiet_NaN();
  int64_t verdict = 0;
};

struct EvaluationTask {
  std::string name, sequence, source;
};

struct EvaluationRecord {
  std::string name;
  int64_t step = 0;  // steps done before it
  double seconds = 0;
  std::vector<EvaluationTask> tasks;
  std::vector<EvaluationSample> samples;
  std::map<std::string, double> numbers;
};

struct MetricRow {
  int64_t step = 0;
  std::string name;
  double value = 0;
};

}  // namespace kz::evolve
