// Rollouts: many completions at once, with each answer on its way to Keck as soon as it is written.
#pragma once

#include <map>
#include <vector>

#include "evolve/loop.h"
#include "rl/ca_grpo.h"

namespace kz::evolve {

// A kernel by the Coder for one module.
struct KernelRollout {
  lm::Completion completion;
  std::string code;
  int64_t verdict = 0;  // id in the store, 0 when Keck was not asked
  std::string outcome, reason;
  rl::Outcome facts;       // what the reward may see
  bool ambiguous = false;  // timed, but not told apart from the reference
};

// `samples` kernels for each source, in order; seeds come from `purpose` and the step. Book slots from `first_slot` on.
struct KernelRequest {
  std::vector<std::string> sources;  // what the Coder is shown
  std::vector<std::string> judged;   // what Keck judges by, where it is another text; empty: the same
  int samples = 8;
  RoleSampling sampling;
  bool timing = true;
  std::string purpose;
  uint64_t seed = 0;
  int64_t step = 0;
  size_t first_slot = 0;
};
Result<std::vector<std::vector<KernelRollout>>> write_kernels(Loop& loop, const KernelRequest& request,
                                                              std::map<std::string, double>& metrics);

// Second question for the groups where speed counts: the times of their right kernels. A kernel that is not right this
// time is not right. `request` is the one that wrote the groups.
Status time_groups(Loop& loop, const KernelRequest& request, std::vector<std::vector<KernelRollout>>& groups,
                   std::map<std::string, double>& metrics);

// A module by the Proposer for one API list.
struct ModuleRollout {
  size_t list = 0;  // index in Loop::lists
  lm::Completion completion;
  std::string code;
  int64_t report = 0;
  bool scored = true;   // false: the gate could not say
  bool valid = false;   // Keck let it pass
  Admission admission;  // of the archive; the reason also holds the gate's
};

// `group` modules for each list: written, gated by Keck, then judged and admitted by the archive in order of index.
Result<std::vector<std::vector<ModuleRollout>>> write_modules(Loop& loop, const std::vector<size_t>& lists, int group,
                                                              const std::string& purpose, int64_t step,
                                                              std::map<std::string, double>& metrics);

// Rows for the store, without rewards.
Rollout to_row(const KernelRollout& rollout, const std::string& prompt, int64_t group, int64_t member, int64_t module);
Rollout to_row(const ModuleRollout& rollout, const std::string& prompt, int64_t group, int64_t member,
               const std::vector<std::string>& apis);

// A completion as training data; an empty answer where the generator gives no tokens.
TrainSequence to_sequence(const lm::Completion& completion, double advantage);

// The facts of a verdict that a reward may see.
rl::Outcome facts_of(const keck::Verdict& verdict);

}  // namespace kz::evolve
