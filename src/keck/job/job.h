// keck/job: the job model of the daemon, without HTTP and without processes. A Job is what a client asked for and can
// ask about; a Work is one execution, which equal jobs share. Journal (journal.h) remembers them across restarts,
// FairQueue (queue.h) orders the works, Jobs (jobs.h) ties these together.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "keck/job/request.h"
#include "keck/job/verdict.h"

namespace kz::keck {

enum class JobKind { kEvaluation, kModule };
enum class JobState { kQueued, kRunning, kDone, kCancelled };

std::string_view to_string(JobKind kind);    // "evaluation" "module"
std::string_view to_string(JobState state);  // "queued" "running" "done" "cancelled"

using JobRequest = std::variant<EvaluationRequest, ModuleRequest>;  // index = JobKind
using Answer = std::variant<Verdict, ModuleReport>;                 // index = JobKind

inline JobKind kind_of(const JobRequest& request) { return static_cast<JobKind>(request.index()); }
uint64_t size_of(const JobRequest& request);  // bytes that it holds, about
Json to_json(const JobRequest& request);
Json to_json(const Answer& answer);
Result<JobRequest> job_request_from_json(JobKind kind, const Json& body);

// One job on its way in. `client` is the fair-share key; `batch` and `key` are empty outside batches.
struct Submission {
  JobRequest request;
  std::string client;
  int priority = 0;
  std::string batch, key;
};

// What a client may know of a job. `answer` is the JSON of the verdict or report, null until it is done.
struct JobView {
  std::string id, key;
  JobKind kind = JobKind::kEvaluation;
  JobState state = JobState::kQueued;
  uint64_t sequence = 0;  // order of finishing within the daemon's life and beyond; 0 until finished
  Json answer;

  bool finished() const { return state == JobState::kDone || state == JobState::kCancelled; }
};

std::string make_job_id();  // 32 hex digits: time first, so that ids sort by age, then 80 secret bits

// What equal jobs share: sha256 of everything in the request that can change the answer, and of the environment.
std::string work_key(const JobRequest& request, std::string_view environment);

}  // namespace kz::keck
