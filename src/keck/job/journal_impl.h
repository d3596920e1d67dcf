// Inside of the journal: the open database and its compiled statements. Only journal.cpp and journal_jobs.cpp see
// SQLite.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <chrono>
#include <map>
#include <mutex>

#include "keck/job/journal.h"

namespace kz::keck {

// One use of a compiled statement. It is reset at the end: a statement left on a row would hold back the WAL for ever.
class Query {
 public:
  explicit Query(SQLite::Statement& statement) : statement_(statement) { statement_.clearBindings(); }
  ~Query() { statement_.tryReset(); }
  Query(const Query&) = delete;

  template <typename Value>
  void bind(int place, const Value& value) {
    statement_.bind(place, value);
  }
  int exec() { return statement_.exec(); }
  bool executeStep() { return statement_.executeStep(); }
  SQLite::Column getColumn(int column) { return statement_.getColumn(column); }

 private:
  SQLite::Statement& statement_;
};

// Seconds since the epoch, as the tables hold them.
inline double journal_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Journal::Impl {
  Impl(JournalOptions o, Fd l)
      : options(std::move(o)),
        lock(std::move(l)),
        db(options.file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE) {}

  const JournalOptions options;
  Fd lock;  // one daemon a journal
  std::mutex mutex;
  SQLite::Database db;
  std::map<std::string, SQLite::Statement> statements;  // compiled once
  uint64_t cached_bytes = 0;

  Query prepare(const std::string& sql) {
    auto it = statements.find(sql);
    if (it == statements.end()) it = statements.emplace(sql, SQLite::Statement(db, sql)).first;
    return Query(it->second);
  }

  // Runs `work` under the lock; SQLite's exceptions end here.
  template <typename Work>
  auto run(Work work) -> Result<decltype(work())> {
    const std::lock_guard guard(mutex);
    try {
      if constexpr (std::is_void_v<decltype(work())>) {
        work();
        return {};
      } else {
        return work();
      }
    } catch (const SQLite::Exception& e) {
      return tl::unexpected(error(e));
    }
  }

  Error error(const SQLite::Exception& e) const {
    std::string remedy;
    if (e.getErrorCode() == SQLITE_FULL || e.getErrorCode() == SQLITE_IOERR)
      remedy = ": free some space there, or start with another --state";
    if (e.getErrorCode() == SQLITE_READONLY || e.getErrorCode() == SQLITE_CANTOPEN)
      remedy = ": make the folder writable, or start with another --state";
    return {"io", "journal " + options.file.string() + ": " + e.what() + remedy};
  }

  Status prepare_file();
  void finish(const Finish& job);
  void evict();
};

}  // namespace kz::keck
