// The verdict of one candidate (keck.md, part 8): data, not an error. `pass` and `fail` are about the candidate;
// `unscored` is the task's, the host's or our fault and is never a reward.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace kz::keck {

enum class Outcome { kPass, kFail, kUnscored };
enum class Stage { kNone, kFormat, kBuild, kLoad, kRun, kCompare, kPolicy, kTask, kHost };
enum class Decision { kNone, kFaster, kSlower, kSame, kAmbiguous };

std::string_view to_string(Outcome outcome);    // "pass" "fail" "unscored"
std::string_view to_string(Stage stage);        // "" "format" "build" "load" "run" "compare" "policy" "task" "host"
std::string_view to_string(Decision decision);  // "" "faster" "slower" "same" "ambiguous"

struct Mismatch {
  int output = 0;
  std::vector<int64_t> index;
  double expected = 0, got = 0;
};

struct Correctness {
  int trials = 0, passed = 0;
  double max_abs_error = 0, max_rel_error = 0, tolerance = 0;  // scaled error and its bound, see judge/compare.h
  double wrong_share = 0;                                      // of the elements of the first wrong output
  std::string check;
  std::optional<Mismatch> first_mismatch;
};

struct Spread {
  double median = 0, iqr = 0, min = 0;  // milliseconds
  int n = 0;
};

struct Timing {
  Spread candidate_ms, eager_ms;
  double speedup = 0;       // eager / candidate, medians over blocks
  double ci95[2] = {0, 0};  // of the speedup
  Decision decision = Decision::kNone;
  double resolution_us = 0, first_call_ms = 0;
  std::string method;  // "gated_cpu"
};

struct BuildInfo {
  double seconds = 0, cpu_seconds = 0;
  std::string cache;  // "hit" "miss" "joined" ""
  std::string log;    // compiler output, lines of the candidate's own source
};

struct Verdict {
  std::string id;
  Outcome outcome = Outcome::kUnscored;
  Stage stage = Stage::kNone;  // where it failed; kNone for a pass
  std::string reason;   // stable code: "no_model_new", "compile_error", "wrong_values", "timeout", "torch_compute", …
  std::string message;  // one line for a person
  std::string headers;  // "slim" "full" ""
  std::optional<Correctness> correctness;
  std::optional<Timing> timing;
  bool accepted = false;            // policy.accepted
  std::vector<std::string> labels;  // policy.labels
  BuildInfo build;
  std::map<std::string, double> stages_ms;  // queue, build, load, check, time
  std::string backend, device, sandbox;     // sandbox: level that it ran under, "strong" or "weak"
  uint64_t seed = 0;
  std::string log_tail;  // the candidate's own output, capped
  bool from_cache = false;
  double cpu_seconds = 0;  // all processes of this verdict

  // keck.md, part 7: what rewards, accuracy, evaluation and corpora count.
  bool right() const { return outcome == Outcome::kPass && accepted; }
  bool scored() const { return outcome != Outcome::kUnscored; }
};

Json to_json(const Verdict& verdict);
Result<Verdict> verdict_from_json(const Json& json);

// What the gate says of a Proposer's module (design.md, part 6). Facts come from the sandbox, the decision is made in
// C++.
struct ModuleReport {
  std::string id;
  Outcome outcome = Outcome::kUnscored;
  std::string
      stage;  // "format" "parse" "apis" "construct" "run" "finite" "deterministic" "inputs" "conditioned" "limits"
  std::string reason, message;
  std::vector<std::string> apis;       // canonical names that the AST uses
  std::vector<std::string> operators;  // operator sequence in order of call, the key of splits and near-duplicates
  std::string canonical_source;        // no comments, no docstrings, canonical names: what the Coder sees
  std::string canonical_hash;          // sha256 of the canonical AST
  double run_ms = 0;
  uint64_t bytes = 0;  // inputs and outputs
};

Json to_json(const ModuleReport& report);
Result<ModuleReport> module_report_from_json(const Json& json);

}  // namespace kz::keck
