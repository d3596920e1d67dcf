// The archive: every module that passed the gate, in order of admission, with what the Coder made of it. It refuses
// near-duplicates (same canonical hash; more than a few modules of one operator sequence), modules of held-out
// sequences and those of the evaluation tasks. It is rebuilt from the run store and written through step records.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "evolve/records.h"

namespace kz::evolve {

struct Admission {
  int64_t module = 0;  // id in the archive, 0 when refused
  std::string reason;  // "" | "duplicate" | "duplicate_sequence" | "held_out" | "forbidden_text" | the gate's reason
};

class Archive {
 public:
  explicit Archive(int per_sequence) : per_sequence_(per_sequence) {}

  void restore(std::vector<ModuleRecord> modules);  // in order of id, from the store
  // Of evaluation tasks; empty ones are passed over.
  void exclude(const std::vector<std::string>& sequences, const std::vector<std::string>& hashes);

  // Judges one module that Keck's gate let pass, and admits it unless refused.
  Admission admit(const keck::ModuleReport& report, int64_t step);

  // The Coder has seen it: l, status and times. Fewer scored than enough leaves the status as it was.
  void seen(const ModuleRound& round, int64_t step, double min_scored_share);

  const std::vector<ModuleRecord>& modules() const { return modules_; }
  const ModuleRecord& at(int64_t id) const { return modules_.at(static_cast<size_t>(id - 1)); }
  std::vector<ModuleRecord> take_changed();  // new or changed since the last call, by id

 private:
  int per_sequence_;
  std::vector<ModuleRecord> modules_;  // id = index + 1
  std::unordered_set<std::string> hashes_;
  std::unordered_map<std::string, int> sequences_;
  std::unordered_set<std::string> excluded_sequences_, excluded_hashes_;
  std::set<int64_t> changed_;
};

}  // namespace kz::evolve
