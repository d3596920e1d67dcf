#include "evolve/store.h"

#include <sqlite3.h>

#include "base/clock.h"
#include "evolve/schema.h"
#include "evolve/store_impl.h"

namespace kz::evolve {
namespace {

// A verdict as the store keeps it: long logs are for the daemon's own files.
keck::Verdict trimmed(keck::Verdict verdict) {
  constexpr size_t kLog = 2000;
  if (verdict.build.log.size() > kLog) verdict.build.log.resize(kLog);
  if (verdict.log_tail.size() > kLog) verdict.log_tail.resize(kLog);
  return verdict;
}

Status check_version(Store& store, const fs::path& file) {
  auto meta = store.meta();
  const bool has = meta && meta->count("schema_version");
  if (!has) return fail("version", file.string() + " is no run store of KernelZero: choose another folder");
  const std::string& found = meta->at("schema_version");
  if (found == std::to_string(kSchemaVersion)) return {};
  return fail("version", file.string() + " was written by another version of KernelZero (store version " + found +
                             ", this one reads " + std::to_string(kSchemaVersion) +
                             "): use that version, or start a new run");
}

}  // namespace

Error Store::Impl::explain(const fs::path& path, const char* doing, const SQLite::Exception& e) {
  std::string what = e.what();
  for (char& c : what) {
    if (c == '\n') c = ' ';
  }
  std::string remedy = "check the disk and the folder's permissions";
  const int code = e.getErrorCode() & 0xff;
  if (code == SQLITE_FULL) remedy = "free disk space and resume the run";
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
    remedy = "the file is damaged or no run store; choose another folder";
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
    remedy = "another process writes to this run; wait for it or stop it";
  return Error{"io", path.string() + ": " + doing + ": " + what + ": " + remedy};
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::create(const fs::path& file, const std::map<std::string, std::string>& meta) {
  if (fs::exists(file)) {
    return fail("exists", file.string() + " exists: resume it with --resume, or choose another name");
  }
  // Made under another name and renamed when whole: a kill leaves a store or none.
  const fs::path made = file.string() + ".new";
  std::error_code ec;
  fs::remove(made, ec);
  try {
    Store store(std::make_unique<Impl>(made, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE));
    SQLite::Transaction transaction(store.impl_->db);
    store.impl_->db.exec(kSchema);
    auto values = meta;
    values["schema_version"] = std::to_string(kSchemaVersion);
    values.emplace("created", utc_now());
    for (const auto& [key, value] : values) KZ_TRY(store.set_meta(key, value));
    transaction.commit();
  } catch (const SQLite::Exception& e) {
    return tl::unexpected(Impl::explain(file, "making the run store", e));
  }
  fs::rename(made, file, ec);
  if (ec) return fail("io", file.string() + ": " + ec.message() + ": check the disk and the folder's permissions");
  return open(file);
}

Result<Store> Store::open(const fs::path& file) {
  if (!fs::exists(file)) return fail("io", file.string() + " does not exist: is this a run folder?");
  try {
    auto impl = std::make_unique<Impl>(file, SQLite::OPEN_READWRITE);
    impl->db.exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;");
    Store store(std::move(impl));
    KZ_TRY(check_version(store, file));
    return store;
  } catch (const SQLite::Exception& e) {
    return tl::unexpected(Impl::explain(file, "opening the run store", e));
  }
}

Result<Store> Store::open_read_only(const fs::path& file) {
  if (!fs::exists(file)) return fail("io", file.string() + " does not exist: is this a run folder?");
  try {
    Store store(std::make_unique<Impl>(file, SQLite::OPEN_READONLY));
    KZ_TRY(check_version(store, file));
    return store;
  } catch (const SQLite::Exception& e) {
    return tl::unexpected(Impl::explain(file, "opening the run store", e));
  }
}

Result<std::map<std::string, std::string>> Store::meta() const {
  return impl_->guard("reading meta", [&] {
    std::map<std::string, std::string> out;
    const Cursor q = impl_->query("SELECT key, value FROM meta");
    while (q->executeStep()) out[text_of(q->getColumn(0))] = text_of(q->getColumn(1));
    return out;
  });
}

Status Store::set_meta(const std::string& key, const std::string& value) {
  return impl_->guard_void("writing meta", [&] {
    const Cursor q = impl_->query("INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)");
    q->bind(1, key);
    q->bind(2, value);
    q->exec();
  });
}

Result<int64_t> Store::add_verdict(const VerdictKey& key, const keck::Verdict& verdict, int64_t unit) {
  return impl_->guard("recording a verdict", [&]() -> int64_t {
    const Cursor q = impl_->query(
        "INSERT INTO verdicts(module, candidate, backend, unit, outcome, right, verdict) VALUES(?, ?, ?, ?, ?, ?, ?)");
    q->bind(1, key.module);
    q->bind(2, key.candidate);
    q->bind(3, key.backend);
    q->bind(4, unit);
    q->bind(5, std::string(keck::to_string(verdict.outcome)));
    q->bind(6, verdict.right() ? 1 : 0);
    q->bind(7, dump_json(keck::to_json(trimmed(verdict))));
    q->exec();
    return impl_->db.getLastInsertRowid();
  });
}

Result<std::optional<RecordedVerdict>> Store::nth_verdict(const VerdictKey& key, int64_t n) const {
  std::string text;
  RecordedVerdict out;
  auto found = impl_->guard("reading a verdict", [&] {
    const Cursor q = impl_->query(
        "SELECT id, unit, verdict FROM verdicts WHERE module = ? AND candidate = ? AND backend = ? ORDER BY id LIMIT 1 "
        "OFFSET ?");
    q->bind(1, key.module);
    q->bind(2, key.candidate);
    q->bind(3, key.backend);
    q->bind(4, n);
    if (!q->executeStep()) return false;
    out.id = q->getColumn(0).getInt64();
    out.unit = q->getColumn(1).getInt64();
    text = text_of(q->getColumn(2));
    return true;
  });
  if (!found) return tl::unexpected(found.error());
  if (!*found) return std::optional<RecordedVerdict>();
  KZ_ASSIGN(const Json json, parse_json(text, impl_->path.string()));
  KZ_ASSIGN(out.verdict, keck::verdict_from_json(json));
  return std::optional<RecordedVerdict>(std::move(out));
}

Result<int64_t> Store::count_verdicts(const VerdictKey& key) const {
  return impl_->guard("counting verdicts", [&]() -> int64_t {
    const Cursor q = impl_->query("SELECT COUNT(*) FROM verdicts WHERE module = ? AND candidate = ? AND backend = ?");
    q->bind(1, key.module);
    q->bind(2, key.candidate);
    q->bind(3, key.backend);
    q->executeStep();
    return q->getColumn(0).getInt64();
  });
}

Result<int64_t> Store::add_report(const std::string& key, const keck::ModuleReport& report, int64_t unit) {
  return impl_->guard("recording a gate report", [&]() -> int64_t {
    const Cursor q = impl_->query("INSERT INTO reports(key, unit, outcome, report) VALUES(?, ?, ?, ?)");
    q->bind(1, key);
    q->bind(2, unit);
    q->bind(3, std::string(keck::to_string(report.outcome)));
    q->bind(4, dump_json(keck::to_json(report)));
    q->exec();
    return impl_->db.getLastInsertRowid();
  });
}

Result<std::optional<RecordedReport>> Store::nth_report(const std::string& key, int64_t n) const {
  std::string text;
  RecordedReport out;
  auto found = impl_->guard("reading a gate report", [&] {
    const Cursor q = impl_->query("SELECT id, unit, report FROM reports WHERE key = ? ORDER BY id LIMIT 1 OFFSET ?");
    q->bind(1, key);
    q->bind(2, n);
    if (!q->executeStep()) return false;
    out.id = q->getColumn(0).getInt64();
    out.unit = q->getColumn(1).getInt64();
    text = text_of(q->getColumn(2));
    return true;
  });
  if (!found) return tl::unexpected(found.error());
  if (!*found) return std::optional<RecordedReport>();
  KZ_ASSIGN(const Json json, parse_json(text, impl_->path.string()));
  KZ_ASSIGN(out.report, keck::module_report_from_json(json));
  return std::optional<RecordedReport>(std::move(out));
}

Result<int64_t> Store::count_reports(const std::string& key) const {
  return impl_->guard("counting gate reports", [&]() -> int64_t {
    const Cursor q = impl_->query("SELECT COUNT(*) FROM reports WHERE key = ?");
    q->bind(1, key);
    q->executeStep();
    return q->getColumn(0).getInt64();
  });
}

Status Store::add_lists(const std::vector<std::vector<std::string>>& lists) {
  return impl_->guard_void("writing API lists", [&] {
    SQLite::Transaction transaction(impl_->db);
    impl_->db.exec("DELETE FROM lists");
    for (size_t i = 0; i < lists.size(); ++i) {
      const Cursor q = impl_->query("INSERT INTO lists(id, apis) VALUES(?, ?)");
      q->bind(1, static_cast<int64_t>(i));
      q->bind(2, dump_json(Json(lists[i])));
      q->exec();
    }
    transaction.commit();
  });
}

Result<std::vector<std::vector<std::string>>> Store::lists() const {
  return impl_->guard("reading API lists", [&] {
    std::vector<std::vector<std::string>> out;
    const Cursor q = impl_->query("SELECT apis FROM lists ORDER BY id");
    while (q->executeStep()) {
      out.push_back(Json::parse(text_of(q->getColumn(0)), nullptr, false).get<std::vector<std::string>>());
    }
    return out;
  });
}

Result<int64_t> Store::count(const std::string& table) const {
  return impl_->guard("counting rows", [&]() -> int64_t {
    const Cursor q = impl_->query("SELECT COUNT(*) FROM " + table);
    q->executeStep();
    return q->getColumn(0).getInt64();
  });
}

}  // namespace kz::evolve
