#include "keck/job/journal.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>

namespace kz::keck {
namespace {

constexpr int kApplicationId = 0x4b5a4a31;  // "KZJ1"

// Step i brings a file from schema i to i+1; a released step is never edited, the next change is a new one.
constexpr std::array<const char*, 1> kSteps = {R"sql(
  CREATE TABLE jobs(
    id TEXT PRIMARY KEY, kind INTEGER NOT NULL, state INTEGER NOT NULL, client TEXT NOT NULL, priority INTEGER NOT NULL,
    batch TEXT NOT NULL, row_key TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL,
    finished REAL, sequence INTEGER, request TEXT NOT NULL, answer TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
  CREATE INDEX jobs_state ON jobs(state) WHERE state < 2;
  CREATE INDEX jobs_batch ON jobs(batch, sequence) WHERE batch != '';
  CREATE UNIQUE INDEX jobs_key ON jobs(batch, row_key) WHERE batch != '';
  CREATE INDEX jobs_finished ON jobs(finished);
  CREATE TABLE counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
  INSERT INTO counters VALUES('sequence', 0);
  CREATE TABLE results(key TEXT PRIMARY KEY, used REAL NOT NULL, bytes INTEGER NOT NULL, answer TEXT NOT NULL);
  CREATE INDEX results_used ON results(used);
)sql"};

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

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

JobView view_of(Query& row) {
  JobView view;
  view.id = row.getColumn(0).getString();
  view.key = row.getColumn(1).getString();
  view.kind = static_cast<JobKind>(row.getColumn(2).getInt());
  view.state = static_cast<JobState>(row.getColumn(3).getInt());
  view.sequence = static_cast<uint64_t>(row.getColumn(4).getInt64());
  const std::string answer = row.getColumn(5).getString();
  if (!answer.empty()) view.answer = parse_json(answer, "journal").value_or(Json());
  return view;
}
constexpr const char* kViewColumns = "id, row_key, kind, state, IFNULL(sequence, 0), answer";

}  // namespace

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

Status Journal::Impl::prepare_file() {
  const std::string name = options.file.string();
  const int id = db.execAndGet("PRAGMA application_id").getInt();
  const int version = db.execAndGet("PRAGMA user_version").getInt();
  const bool is_empty = db.execAndGet("SELECT COUNT(*) FROM sqlite_master").getInt() == 0;
  const int newest = static_cast<int>(kSteps.size());
  if (!is_empty && id != kApplicationId)
    return fail("version", name + " is an SQLite file of another program: start with another --state");
  if (version > newest)
    return fail("version", name + " has schema " + std::to_string(version) + ", this keck knows up to " +
                               std::to_string(newest) + ": use the newer keck, or start with another --state");
  db.exec("PRAGMA journal_mode=WAL");
  db.exec("PRAGMA synchronous=NORMAL");
  if (version < newest) {
    SQLite::Transaction transaction(db);
    for (int step = is_empty ? 0 : version; step < newest; ++step) db.exec(kSteps[static_cast<size_t>(step)]);
    db.exec("PRAGMA application_id=" + std::to_string(kApplicationId));
    db.exec("PRAGMA user_version=" + std::to_string(newest));
    transaction.commit();
  }
  cached_bytes = static_cast<uint64_t>(db.execAndGet("SELECT IFNULL(SUM(bytes), 0) FROM results").getInt64());
  return {};
}

void Journal::Impl::finish(const Finish& job) {
  auto count = prepare("UPDATE counters SET value = value + 1 WHERE name = 'sequence'");
  count.exec();
  auto update = prepare(
      "UPDATE jobs SET state = ?, answer = ?, finished = ?, request = '', "
      "sequence = (SELECT value FROM counters WHERE name = 'sequence') WHERE id = ? AND state < 2");
  update.bind(1, static_cast<int>(job.state));
  update.bind(2, job.answer);
  update.bind(3, now());
  update.bind(4, job.id);
  update.exec();
}

void Journal::Impl::evict() {
  if (cached_bytes <= options.result_cache_bytes) return;
  // Down to 90%, so that a full cache is not swept at every insertion.
  auto oldest = prepare("SELECT key, bytes FROM results ORDER BY used");
  std::vector<std::string> keys;
  while (cached_bytes > options.result_cache_bytes / 10 * 9 && oldest.executeStep()) {
    keys.push_back(oldest.getColumn(0).getString());
    cached_bytes -= std::min(cached_bytes, static_cast<uint64_t>(oldest.getColumn(1).getInt64()));
  }
  for (const auto& key : keys) {
    auto remove = prepare("DELETE FROM results WHERE key = ?");
    remove.bind(1, key);
    remove.exec();
  }
}

Journal::Journal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Journal::~Journal() = default;

Result<std::unique_ptr<Journal>> Journal::open(const JournalOptions& options) {
  KZ_TRY(make_dirs(options.file.parent_path()));
  const std::string lock_name = options.file.string() + ".lock";
  Fd lock(::open(lock_name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock)
    return fail("io", lock_name + ": " + errno_text(errno) + ": make it writable, or start with another --state");
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail("io", "another keck uses " + options.file.string() + ": stop it, or start with another --state");
  try {
    auto impl = std::make_unique<Impl>(options, std::move(lock));
    KZ_TRY(impl->prepare_file());
    return std::unique_ptr<Journal>(new Journal(std::move(impl)));
  } catch (const SQLite::Exception& e) {
    if (e.getErrorCode() == SQLITE_NOTADB)
      return fail("version", options.file.string() + " is no journal of keck: start with another --state");
    return fail("io", "journal " + options.file.string() + ": " + e.what() + ": start with another --state");
  }
}

Status Journal::add(const std::vector<JournalJob>& jobs, const std::vector<Finish>& answered) {
  return impl_->run([&] {
    SQLite::Transaction transaction(impl_->db);
    for (const auto& job : jobs) {
      auto insert = impl_->prepare(
          "INSERT INTO jobs(id, kind, state, client, priority, batch, row_key, created, request) "
          "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
      insert.bind(1, job.id);
      insert.bind(2, static_cast<int>(job.kind));
      insert.bind(3, static_cast<int>(JobState::kQueued));
      insert.bind(4, job.client);
      insert.bind(5, job.priority);
      insert.bind(6, job.batch);
      insert.bind(7, job.key);
      insert.bind(8, now());
      insert.bind(9, job.request);
      insert.exec();
    }
    for (const auto& job : answered) impl_->finish(job);
    transaction.commit();
  });
}

Status Journal::started(const std::vector<std::string>& ids) {
  return impl_->run([&] {
    SQLite::Transaction transaction(impl_->db);
    for (const auto& id : ids) {
      auto update = impl_->prepare("UPDATE jobs SET state = 1, attempts = attempts + 1 WHERE id = ? AND state < 2");
      update.bind(1, id);
      update.exec();
    }
    transaction.commit();
  });
}

Status Journal::finished(const std::vector<Finish>& jobs) {
  return impl_->run([&] {
    SQLite::Transaction transaction(impl_->db);
    for (const auto& job : jobs) impl_->finish(job);
    transaction.commit();
  });
}

Status Journal::released(const std::vector<std::string>& ids) {
  return impl_->run([&] {
    SQLite::Transaction transaction(impl_->db);
    for (const auto& id : ids) {
      auto update = impl_->prepare("UPDATE jobs SET state = 0, attempts = attempts - 1 WHERE id = ? AND state = 1");
      update.bind(1, id);
      update.exec();
    }
    transaction.commit();
  });
}

Result<std::vector<JournalJob>> Journal::unfinished() {
  return impl_->run([&] {
    std::vector<JournalJob> jobs;
    auto rows = impl_->prepare(
        "SELECT id, kind, state, client, priority, batch, row_key, attempts, request FROM jobs WHERE state < 2 "
        "ORDER BY created, id");
    while (rows.executeStep()) {
      JournalJob job;
      job.id = rows.getColumn(0).getString();
      job.kind = static_cast<JobKind>(rows.getColumn(1).getInt());
      job.state = static_cast<JobState>(rows.getColumn(2).getInt());
      job.client = rows.getColumn(3).getString();
      job.priority = rows.getColumn(4).getInt();
      job.batch = rows.getColumn(5).getString();
      job.key = rows.getColumn(6).getString();
      job.attempts = rows.getColumn(7).getInt();
      job.request = rows.getColumn(8).getString();
      jobs.push_back(std::move(job));
    }
    return jobs;
  });
}

Result<std::optional<JobView>> Journal::find(const std::string& id) {
  return impl_->run([&]() -> std::optional<JobView> {
    auto row = impl_->prepare(std::string("SELECT ") + kViewColumns + " FROM jobs WHERE id = ?");
    row.bind(1, id);
    if (!row.executeStep()) return std::nullopt;
    return view_of(row);
  });
}

Result<std::vector<std::pair<std::string, std::string>>> Journal::batch_keys(const std::string& batch) {
  return impl_->run([&] {
    std::vector<std::pair<std::string, std::string>> keys;
    auto rows = impl_->prepare("SELECT row_key, id FROM jobs WHERE batch = ? AND batch != ''");
    rows.bind(1, batch);
    while (rows.executeStep()) keys.emplace_back(rows.getColumn(0).getString(), rows.getColumn(1).getString());
    return keys;
  });
}

Result<std::optional<Journal::BatchCounts>> Journal::batch_counts(const std::string& batch) {
  return impl_->run([&]() -> std::optional<BatchCounts> {
    auto row = impl_->prepare(
        "SELECT COUNT(*), COUNT(sequence), IFNULL(SUM(state = 3), 0), IFNULL(MAX(sequence), 0) FROM jobs "
        "WHERE batch = ? AND batch != ''");
    row.bind(1, batch);
    row.executeStep();
    const auto number = [&](int column) { return static_cast<uint64_t>(row.getColumn(column).getInt64()); };
    if (number(0) == 0) return std::nullopt;
    return BatchCounts{number(0), number(1), number(2), number(3)};
  });
}

Result<std::vector<JobView>> Journal::batch_finished(const std::string& batch, uint64_t after, int limit) {
  return impl_->run([&] {
    std::vector<JobView> views;
    auto rows = impl_->prepare(std::string("SELECT ") + kViewColumns +
                               " FROM jobs WHERE batch = ? AND batch != '' AND sequence > ? ORDER BY sequence LIMIT ?");
    rows.bind(1, batch);
    rows.bind(2, static_cast<int64_t>(after));
    rows.bind(3, limit);
    while (rows.executeStep()) views.push_back(view_of(rows));
    return views;
  });
}

Result<std::vector<std::string>> Journal::batch_unfinished(const std::string& batch) {
  return impl_->run([&] {
    std::vector<std::string> ids;
    auto rows = impl_->prepare("SELECT id FROM jobs WHERE batch = ? AND batch != '' AND sequence IS NULL");
    rows.bind(1, batch);
    while (rows.executeStep()) ids.push_back(rows.getColumn(0).getString());
    return ids;
  });
}

std::optional<std::string> Journal::cached(const std::string& work_key) {
  auto found = impl_->run([&]() -> std::optional<std::string> {
    auto row = impl_->prepare("SELECT answer FROM results WHERE key = ?");
    row.bind(1, work_key);
    if (!row.executeStep()) return std::nullopt;
    std::string answer = row.getColumn(0).getString();
    auto touch = impl_->prepare("UPDATE results SET used = ? WHERE key = ?");
    touch.bind(1, now());
    touch.bind(2, work_key);
    touch.exec();
    return answer;
  });
  return found ? *found : std::nullopt;  // a cache that cannot be read is a cache that misses
}

Status Journal::cache(const std::string& work_key, const std::string& answer) {
  return impl_->run([&] {
    SQLite::Transaction transaction(impl_->db);
    auto insert = impl_->prepare("INSERT OR IGNORE INTO results(key, used, bytes, answer) VALUES(?, ?, ?, ?)");
    const uint64_t bytes = answer.size() + work_key.size();
    insert.bind(1, work_key);
    insert.bind(2, now());
    insert.bind(3, static_cast<int64_t>(bytes));
    insert.bind(4, answer);
    if (insert.exec() > 0) impl_->cached_bytes += bytes;
    impl_->evict();
    transaction.commit();
  });
}

Journal::Sizes Journal::sizes() {
  auto sizes = impl_->run([&] {
    Sizes s;
    s.jobs = static_cast<uint64_t>(impl_->db.execAndGet("SELECT COUNT(*) FROM jobs").getInt64());
    s.cached_results = static_cast<uint64_t>(impl_->db.execAndGet("SELECT COUNT(*) FROM results").getInt64());
    s.cached_bytes = impl_->cached_bytes;
    return s;
  });
  Sizes result = sizes.value_or(Sizes{});
  std::error_code ignored;
  const auto bytes = fs::file_size(impl_->options.file, ignored);
  result.file_bytes = ignored ? 0 : bytes;
  return result;
}

Status Journal::prune() {
  return impl_->run([&] {
    SQLite::Transaction transaction(impl_->db);
    auto remove = impl_->prepare("DELETE FROM jobs WHERE finished < ?");
    remove.bind(1, now() - impl_->options.keep_s);
    remove.exec();
    impl_->evict();
    transaction.commit();
  });
}

}  // namespace kz::keck
