#include "evolve/archive.h"

#include <cmath>

#include "corpus/split.h"

namespace kz::evolve {

void Archive::restore(std::vector<ModuleRecord> modules) {
  modules_ = std::move(modules);
  hashes_.clear();
  sequences_.clear();
  changed_.clear();
  for (const auto& m : modules_) {
    hashes_.insert(m.hash);
    ++sequences_[m.sequence];
  }
}

void Archive::exclude(const std::vector<std::string>& sequences, const std::vector<std::string>& hashes) {
  excluded_sequences_.insert(sequences.begin(), sequences.end());
  excluded_hashes_.insert(hashes.begin(), hashes.end());
  excluded_sequences_.erase("");
  excluded_hashes_.erase("");
}

Admission Archive::admit(const keck::ModuleReport& report, int64_t step) {
  const std::string sequence = corpus::sequence_of(report.operators);
  // A module may not speak in the marks of the chat form (threats.md M5).
  if (report.canonical_source.find("<|") != std::string::npos) return {0, "forbidden_text"};
  if (corpus::is_held_out(sequence) || excluded_sequences_.count(sequence) ||
      excluded_hashes_.count(report.canonical_hash)) {
    return {0, "held_out"};
  }
  if (hashes_.count(report.canonical_hash)) return {0, "duplicate"};
  if (const auto at = sequences_.find(sequence); at != sequences_.end() && at->second >= per_sequence_) {
    return {0, "duplicate_sequence"};
  }
  ModuleRecord m;
  m.id = static_cast<int64_t>(modules_.size()) + 1;
  m.hash = report.canonical_hash;
  m.sequence = sequence;
  m.source = report.canonical_source;
  m.apis = report.apis;
  m.step = step;
  hashes_.insert(m.hash);
  ++sequences_[sequence];
  changed_.insert(m.id);
  modules_.push_back(std::move(m));
  return {modules_.back().id, ""};
}

void Archive::seen(const ModuleRound& round, int64_t step, double min_scored_share) {
  ModuleRecord& m = modules_.at(static_cast<size_t>(round.module - 1));
  m.seen_step = step;
  ++m.times_seen;
  changed_.insert(m.id);
  if (round.scored == 0 || round.scored < min_scored_share * round.rollouts - 1e-9) return;
  m.mean = static_cast<double>(round.right) / round.scored;
  m.status = round.right == 0              ? ModuleStatus::kHard
             : round.right == round.scored ? ModuleStatus::kSolved
                                           : ModuleStatus::kFrontier;
}

std::vector<ModuleRecord> Archive::take_changed() {
  std::vector<ModuleRecord> out;
  for (const int64_t id : changed_) out.push_back(at(id));
  changed_.clear();
  return out;
}

}  // namespace kz::evolve
