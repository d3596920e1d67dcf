// How jobs come in: what is known already is answered, what is equal is shared, what does not fit is refused.
#include <map>
#include <set>

#include "base/clock.h"
#include "keck/job/answers.h"
#include "keck/job/jobs.h"

namespace kz::keck {

// What a list of submissions would do, worked out before any of it is done.
struct Jobs::Intake {
  struct Queued {
    size_t submission;
    std::string key;  // of the work; empty when not shared
  };
  std::vector<std::string> ids;  // in the order of the submissions
  std::vector<JournalJob> rows;
  std::vector<Queued> queued;
  std::vector<Journal::Finish> answered;  // from the result cache
  std::vector<Told> told;                 // the same jobs
  size_t works = 0;                       // that the queue must take
  uint64_t bytes = 0;                     // of their requests
};

Result<Jobs::Intake> Jobs::plan(const std::vector<Submission>& submissions) {
  Intake intake;
  std::map<std::pair<std::string, std::string>, std::string> rows;  // (batch, key) -> id
  std::set<std::string> new_keys;
  for (size_t i = 0; i < submissions.size(); ++i) {
    const Submission& s = submissions[i];
    const std::string id = make_job_id();
    intake.ids.push_back(id);
    if (!s.batch.empty()) {
      if (s.key.empty()) return fail("request", "a row of a batch needs a key");
      const auto [row, fresh] = rows.try_emplace({s.batch, s.key}, id);
      if (fresh) {
        KZ_ASSIGN(const auto known, journal_->row_id(s.batch, s.key));
        if (known) row->second = *known;
      }
      intake.ids.back() = row->second;
      if (row->second != id) continue;  // it was sent before
    }
    intake.rows.push_back({id, s.client, s.batch, s.key, kind_of(s.request), JobState::kQueued, s.priority, 0,
                           dump_json(to_json(s.request))});
    std::string key = shareable(s.request) ? work_key(s.request, environment_) : "";
    if (auto answer = cached(key, kind_of(s.request))) {
      intake.answered.push_back(
          {id, JobState::kDone, dump_json(to_json(answer_for(std::move(*answer), id, /*shared=*/true, 0)))});
      intake.told.emplace_back(id, s.batch);
      continue;
    }
    if (key.empty() || (!by_key_.contains(key) && new_keys.insert(key).second)) {
      ++intake.works;
      intake.bytes += size_of(s.request);
    }
    intake.queued.push_back({i, std::move(key)});
  }
  return intake;
}

std::optional<Answer> Jobs::cached(const std::string& key, JobKind kind) {
  const auto text = key.empty() ? std::nullopt : journal_->cached(key);
  if (!text) return std::nullopt;
  auto answer = answer_from_text(kind, *text);
  return answer ? std::optional<Answer>(std::move(*answer)) : std::nullopt;
}

Status Jobs::room_for(const Intake& intake) {
  const size_t waiting = queue_.size();
  const bool too_many = waiting + intake.works > options_.queue_limit;
  const bool too_large = queued_bytes_ + intake.bytes > options_.queue_bytes;
  if (intake.works == 0 || (!too_many && !too_large)) return {};
  ++counts_.refused_full;
  return fail("full", "the queue holds " + std::to_string(waiting) + " of " + std::to_string(options_.queue_limit) +
                          " jobs and " + std::to_string(queued_bytes_ >> 20) + " of " +
                          std::to_string(options_.queue_bytes >> 20) + " MiB, " + std::to_string(intake.works) +
                          " more do not fit: try again later, or raise " +
                          (too_many ? "queue.limit" : "queue.memory_mb"));
}

Result<std::vector<std::string>> Jobs::accept(std::vector<Submission> submissions) {
  Intake intake;
  {
    const std::lock_guard guard(mutex_);
    if (draining_) return fail("draining", "the server is shutting down: try again in a moment");
    if (!begun_) return fail("starting", "the server is starting: try again in a moment");
    KZ_ASSIGN(intake, plan(submissions));
    KZ_TRY(room_for(intake));
    KZ_TRY(journal_->add(intake.rows, intake.answered));
    counts_.accepted += intake.rows.size();
    counts_.cache_hits += intake.answered.size();
    for (auto& [i, key] : intake.queued) {
      auto& s = submissions[i];
      enqueue(std::move(s.request), std::move(key), {intake.ids[i], s.batch, steady_seconds()}, s.client, s.priority);
    }
  }
  wake_.notify_all();
  tell(intake.told);
  return intake.ids;
}

}  // namespace kz::keck
