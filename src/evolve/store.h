// The run store: everything of one run in one SQLite file, run.db. Its tables are in schema.h and are what reports
// read. Each commit is one transaction, so a kill at any instant leaves the state after some whole step. Verdicts and
// gate reports are recorded one by one as they arrive, so a step that is begun again asks nothing twice.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "evolve/records.h"
#include "keck/job/verdict.h"

namespace kz::evolve {

class Store {
 public:
  // Error "exists" when there is a run already; "version" for the store of another version; "io" (full disk, no
  // permission, not a database): one line with the path and what to do.
  static Result<Store> create(const fs::path& file, const std::map<std::string, std::string>& meta);
  static Result<Store> open(const fs::path& file);
  static Result<Store> open_read_only(const fs::path& file);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  Result<std::map<std::string, std::string>> meta() const;
  Status set_meta(const std::string& key, const std::string& value);

  // Verdicts, in the order in which they were recorded. The n-th of a key (from 0), or nothing.
  Result<int64_t> add_verdict(const VerdictKey& key, const keck::Verdict& verdict, int64_t unit);
  Result<std::optional<RecordedVerdict>> nth_verdict(const VerdictKey& key, int64_t n) const;
  Result<int64_t> count_verdicts(const VerdictKey& key) const;
  Result<int64_t> add_report(const std::string& key, const keck::ModuleReport& report, int64_t unit);
  Result<std::optional<RecordedReport>> nth_report(const std::string& key, int64_t n) const;
  Result<int64_t> count_reports(const std::string& key) const;

  // API lists, written once at the start of a run.
  Status add_lists(const std::vector<std::vector<std::string>>& lists);
  Result<std::vector<std::vector<std::string>>> lists() const;

  // One transaction: step, rollouts, new modules, l of modules, metrics.
  Status commit_step(const StepRecord& step);
  Result<std::optional<StepRecord>> last_step() const;  // without rollouts and modules
  Result<double> seconds() const;                       // wall time of all committed steps
  Result<std::vector<ModuleRecord>> modules() const;
  Result<int64_t> rounds_done() const;  // rounds with at least one step of the Coder
  Status commit_round(int round, const std::map<std::string, double>& numbers);

  // One transaction: all samples of an evaluation and its numbers. `name`: "before" or "after".
  Status commit_evaluation(const EvaluationRecord& evaluation);
  Result<std::optional<EvaluationRecord>> evaluation(const std::string& name) const;

  Result<std::vector<MetricRow>> metrics() const;
  Result<int64_t> count(const std::string& table) const;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kz::evolve
