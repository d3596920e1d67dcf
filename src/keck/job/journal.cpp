#include "keck/job/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/clock.h"
#include "keck/job/journal_impl.h"

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

std::string lock_name(const fs::path& file) { return file.string() + ".lock"; }

// A killed daemon holds its lock until the kernel has taken its memory apart.
bool take(const Fd& lock, double wait_s) {
  for (const Stopwatch watch; ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;) {
    if (watch.seconds() >= wait_s) return false;
    ::usleep(20000);
  }
  return true;
}

}  // namespace

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

bool Journal::in_use(const fs::path& file) {
  const Fd lock(::open(lock_name(file).c_str(), O_RDWR | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
}

Result<std::unique_ptr<Journal>> Journal::open(const JournalOptions& options) {
  KZ_TRY(make_dirs(options.file.parent_path()));
  const std::string lock_file = lock_name(options.file);
  Fd lock(::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock)
    return fail("io", lock_file + ": " + errno_text(errno) + ": make it writable, or start with another --state");
  if (!take(lock, options.lock_wait_s))
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

std::optional<std::string> Journal::cached(const std::string& work_key) {
  auto found = impl_->run([&]() -> std::optional<std::string> {
    auto row = impl_->prepare("SELECT answer FROM results WHERE key = ?");
    row.bind(1, work_key);
    if (!row.executeStep()) return std::nullopt;
    std::string answer = row.getColumn(0).getString();
    auto touch = impl_->prepare("UPDATE results SET used = ? WHERE key = ?");
    touch.bind(1, journal_now());
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
    insert.bind(2, journal_now());
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
    remove.bind(1, journal_now() - impl_->options.keep_s);
    remove.exec();
    impl_->evict();
    transaction.commit();
  });
}

}  // namespace kz::keck
