// The jobs of the journal: written, and asked about.
#include "keck/job/journal_impl.h"

namespace kz::keck {
namespace {

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

void Journal::Impl::finish(const Finish& job) {
  auto count = prepare("UPDATE counters SET value = value + 1 WHERE name = 'sequence'");
  count.exec();
  auto update = prepare(
      "UPDATE jobs SET state = ?, answer = ?, finished = ?, request = '', "
      "sequence = (SELECT value FROM counters WHERE name = 'sequence') WHERE id = ? AND state < 2");
  update.bind(1, static_cast<int>(job.state));
  update.bind(2, job.answer);
  update.bind(3, journal_now());
  update.bind(4, job.id);
  update.exec();
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
      insert.bind(8, journal_now());
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

Result<std::optional<std::string>> Journal::row_id(const std::string& batch, const std::string& key) {
  return impl_->run([&]() -> std::optional<std::string> {
    auto row = impl_->prepare("SELECT id FROM jobs WHERE batch = ? AND row_key = ? AND batch != ''");
    row.bind(1, batch);
    row.bind(2, key);
    if (!row.executeStep()) return std::nullopt;
    return row.getColumn(0).getString();
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

}  // namespace kz::keck
