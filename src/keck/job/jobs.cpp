#include "keck/job/jobs.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "keck/job/answers.h"

namespace kz::keck {

Jobs::Jobs(const JobsOptions& options, std::unique_ptr<Journal> journal)
    : options_(options), journal_(std::move(journal)) {}
Jobs::~Jobs() = default;

Result<std::unique_ptr<Jobs>> Jobs::open(const JobsOptions& options) {
  KZ_ASSIGN(auto journal, Journal::open(options.journal));
  std::unique_ptr<Jobs> jobs(new Jobs(options, std::move(journal)));
  KZ_TRY(jobs->journal_->prune());
  return jobs;
}

Status Jobs::begin(const std::string& environment) {
  const std::lock_guard guard(mutex_);
  environment_ = environment;
  KZ_ASSIGN(const auto left, journal_->unfinished());
  std::vector<Journal::Finish> given_up;  // and cancelled
  for (const auto& job : left) {
    if (!options_.resume) {
      given_up.push_back({job.id, JobState::kCancelled, ""});
      continue;
    }
    auto request = parse_json(job.request, "journal").and_then([&](const Json& json) {
      return job_request_from_json(job.kind, json);
    });
    if (!request || job.attempts >= options_.max_attempts) {
      const Answer answer = request
                                ? host_failure(job.kind, "gave_up",
                                               std::to_string(job.attempts) + " daemons ended while they ran this job")
                                : host_failure(job.kind, "unreadable",
                                               "the journal's request cannot be read: " + request.error().message);
      given_up.push_back({job.id, JobState::kDone, dump_json(to_json(answer_for(answer, job.id, false, 0)))});
      continue;
    }
    const std::string key = shareable(*request) ? work_key(*request, environment_) : "";
    enqueue(std::move(*request), key, {job.id, job.batch, steady_seconds()}, job.client, job.priority);
  }
  if (!left.empty())
    log::info("journal: " + std::to_string(left.size() - given_up.size()) + " unfinished jobs taken up");
  KZ_TRY(journal_->finished(given_up));
  begun_ = true;
  wake_.notify_all();
  return {};
}

bool Jobs::shareable(const JobRequest& request) const {
  if (const auto* evaluation = std::get_if<EvaluationRequest>(&request))
    return !evaluation->seed && evaluation->use_result_cache;
  return !std::get<ModuleRequest>(request).seed;
}

void Jobs::enqueue(JobRequest request, std::string key, Job job, const std::string& client, int priority) {
  if (const auto equal = key.empty() ? by_key_.end() : by_key_.find(key); equal != by_key_.end()) {
    by_job_[job.id] = equal->second;
    works_.at(equal->second).jobs.push_back(std::move(job));
    ++counts_.joined;
    return;
  }
  const uint64_t id = next_work_++;
  by_job_[job.id] = id;
  if (!key.empty()) by_key_[key] = id;
  Shared work;
  work.bytes = size_of(request);
  queued_bytes_ += work.bytes;
  work.request = std::move(request);
  work.key = std::move(key);
  work.jobs.push_back(std::move(job));
  works_.emplace(id, std::move(work));
  queue_.push(id, client, priority);
}

std::optional<Work> Jobs::take() {
  std::unique_lock guard(mutex_);
  wake_.wait(guard, [&] { return draining_ || queue_.size() > 0; });
  if (draining_) return std::nullopt;
  const uint64_t id = *queue_.pop();
  Shared& work = works_.at(id);
  work.running = true;
  queued_bytes_ -= work.bytes;
  work.started_at = steady_seconds();
  std::vector<std::string> ids;
  for (const auto& job : work.jobs) ids.push_back(job.id);
  if (auto status = journal_->started(ids); !status) log::warn(status.error().message);
  ++counts_.running;
  return Work{id, work.request, work.cancelled};
}

void Jobs::finish(uint64_t id, const Answer& answer) {
  std::vector<Told> finished;
  {
    const std::lock_guard guard(mutex_);
    const auto work = works_.find(id);
    if (work == works_.end()) return;
    --counts_.running;
    std::vector<Journal::Finish> finishes;
    for (const auto& job : work->second.jobs) {
      const double queue_ms = 1e3 * std::max(0.0, work->second.started_at - job.accepted_at);
      const Answer own = answer_for(answer, job.id, /*shared=*/!finishes.empty(), queue_ms);
      finishes.push_back({job.id, JobState::kDone, dump_json(to_json(own))});
      finished.emplace_back(job.id, job.batch);
    }
    record(std::move(finishes));
    if (!work->second.key.empty() && cacheable(answer))
      if (auto status = journal_->cache(work->second.key, dump_json(to_json(answer))); !status)
        log::warn(status.error().message);
    forget(work);
  }
  tell(finished);
}

void Jobs::give_back(uint64_t id) {
  const std::lock_guard guard(mutex_);
  const auto work = works_.find(id);
  if (work == works_.end()) return;
  --counts_.running;
  std::vector<std::string> ids;
  for (const auto& job : work->second.jobs) ids.push_back(job.id);
  if (auto status = journal_->released(ids); !status) log::warn(status.error().message);
  forget(work);
}

void Jobs::forget(Works::iterator work) {
  if (const auto key = by_key_.find(work->second.key); key != by_key_.end() && key->second == work->first)
    by_key_.erase(key);
  for (const auto& job : work->second.jobs) by_job_.erase(job.id);
  works_.erase(work);
}

std::optional<Jobs::Told> Jobs::detach(const std::string& id) {
  const auto place = by_job_.find(id);
  if (place == by_job_.end()) return std::nullopt;
  const auto work = works_.find(place->second);
  auto& jobs = work->second.jobs;
  const auto job = std::find_if(jobs.begin(), jobs.end(), [&](const Job& j) { return j.id == id; });
  Told told{id, job->batch};
  jobs.erase(job);
  by_job_.erase(place);
  if (!jobs.empty()) return told;  // equal jobs still want the answer
  work->second.cancelled->store(true);
  if (work->second.running) {
    // Its worker ends it; an equal job that comes now must not join it.
    if (const auto key = by_key_.find(work->second.key); key != by_key_.end() && key->second == work->first)
      by_key_.erase(key);
  } else {
    queue_.remove(work->first);
    queued_bytes_ -= work->second.bytes;
    forget(work);
  }
  return told;
}

Result<bool> Jobs::cancel(const std::string& id) {
  std::optional<Told> told;
  {
    const std::lock_guard guard(mutex_);
    told = detach(id);
    if (!told) return false;
    record({{id, JobState::kCancelled, ""}});
    ++counts_.cancelled;
  }
  tell({*told});
  return true;
}

Result<uint64_t> Jobs::cancel_batch(const std::string& batch) {
  std::vector<Told> told;
  {
    const std::lock_guard guard(mutex_);
    KZ_ASSIGN(const auto ids, journal_->batch_unfinished(batch));
    std::vector<Journal::Finish> finishes;
    for (const auto& id : ids) {
      if (auto job = detach(id)) {
        told.push_back(*job);
        finishes.push_back({id, JobState::kCancelled, ""});
      }
    }
    counts_.cancelled += finishes.size();
    record(std::move(finishes));
  }
  tell(told);
  return told.size();
}

void Jobs::record(std::vector<Journal::Finish> finishes) {
  unwritten_.insert(unwritten_.end(), std::make_move_iterator(finishes.begin()),
                    std::make_move_iterator(finishes.end()));
  if (unwritten_.empty()) return;
  if (auto status = journal_->finished(unwritten_); !status)
    log::error(status.error().message + " (" + std::to_string(unwritten_.size()) + " answers wait for it)");
  else
    unwritten_.clear();
}

void Jobs::tell(const std::vector<Told>& finished) {
  if (!listener_) return;
  for (const auto& [id, batch] : finished) listener_(id, batch);
}

void Jobs::drain() {
  {
    const std::lock_guard guard(mutex_);
    draining_ = true;
  }
  wake_.notify_all();
}

void Jobs::cancel_running() {
  const std::lock_guard guard(mutex_);
  for (auto& [id, work] : works_)
    if (work.running) work.cancelled->store(true);
}

void Jobs::maintain() {
  const std::lock_guard guard(mutex_);
  record({});
  if (steady_seconds() - pruned_at_ < 600) return;
  pruned_at_ = steady_seconds();
  if (auto status = journal_->prune(); !status) log::warn(status.error().message);
}

JobsStatistics Jobs::statistics() {
  JobsStatistics statistics;
  {
    const std::lock_guard guard(mutex_);
    statistics = counts_;
    statistics.queued = queue_.size();
  }
  statistics.journal = journal_->sizes();
  return statistics;
}

}  // namespace kz::keck
