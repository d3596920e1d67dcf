// Inside of the run store: the database and its small helpers. Included by store*.cpp only.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/json.h"
#include "evolve/store.h"

namespace kz::evolve {

// A prepared statement in use; reset when it goes, since an open reader would block checkpoints of the log.
class Cursor {
 public:
  explicit Cursor(SQLite::Statement& statement) : statement_(statement) {}
  Cursor(const Cursor&) = delete;
  ~Cursor() { statement_.tryReset(); }
  SQLite::Statement* operator->() const { return &statement_; }
  SQLite::Statement& operator*() const { return statement_; }

 private:
  SQLite::Statement& statement_;
};

struct Store::Impl {
  Impl(const fs::path& file, int flags) : path(file), db(file.string(), flags, /*aBusyTimeoutMs=*/10000) {}

  // Prepared once, without bindings. One user of each at a time: the store belongs to one thread.
  Cursor query(const std::string& sql) {
    auto& slot = statements[sql];
    if (!slot) slot = std::make_unique<SQLite::Statement>(db, sql);
    slot->reset();
    slot->clearBindings();
    return Cursor(*slot);
  }

  // Runs `work` and turns SQLite's exceptions into one line that says where and what to do.
  template <typename F>
  auto guard(const char* doing, F work) const -> Result<decltype(work())> {
    try {
      return work();
    } catch (const SQLite::Exception& e) {
      return tl::unexpected(explain(doing, e));
    } catch (const Json::exception& e) {
      return fail("io", path.string() + ": " + doing + ": damaged row: " + e.what());
    }
  }
  template <typename F>
  Status guard_void(const char* doing, F work) const {
    try {
      work();
      return {};
    } catch (const SQLite::Exception& e) {
      return tl::unexpected(explain(doing, e));
    }
  }
  Error explain(const char* doing, const SQLite::Exception& e) const { return explain(path, doing, e); }
  static Error explain(const fs::path& path, const char* doing, const SQLite::Exception& e);

  // Parts of one transaction.
  void put_step_row(const StepRecord& step);
  void put_rollout(int64_t step, const Rollout& rollout);
  void put_module(const ModuleRecord& module);
  void put_module_round(const StepRecord& step, const ModuleRound& round);
  void put_metric(int64_t step, const std::string& name, double value);
  void put_task(const std::string& evaluation, int64_t index, const EvaluationTask& task);
  void put_sample(const std::string& evaluation, const EvaluationSample& sample);

  fs::path path;
  SQLite::Database db;
  std::unordered_map<std::string, std::unique_ptr<SQLite::Statement>> statements;
};

// NaN and infinities are NULL.
inline void bind_number(SQLite::Statement& q, int index, double value) {
  if (std::isfinite(value)) {
    q.bind(index, value);
  } else {
    q.bind(index);
  }
}
inline double number_of(const SQLite::Column& column) { return column.isNull() ? std::nan("") : column.getDouble(); }
inline std::string text_of(const SQLite::Column& column) {
  return std::string(column.getText(), static_cast<size_t>(column.getBytes()));
}

}  // namespace kz::evolve
