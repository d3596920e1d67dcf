// The daemon's jobs: accepted, ordered, shared between equal ones, remembered. API threads accept, ask and cancel;
// worker threads take and finish. Everything a client was promised is in the journal before the promise is given.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "keck/job/journal.h"
#include "keck/job/queue.h"

namespace kz::keck {

struct JobsOptions {
  JournalOptions journal;
  uint64_t queue_bytes = 1ULL << 30;  // of their requests, which are held in memory
  size_t queue_limit = 4096;          // works that wait; more are refused with "full"
  bool resume = true;                 // run what an earlier daemon left unfinished; else it is cancelled
  int max_attempts = 3;               // daemons that may die while running a job before it is given up as unscored
};

// One execution, in the hands of a worker thread.
struct Work {
  uint64_t id = 0;
  JobRequest request;
  std::shared_ptr<const std::atomic<bool>> cancelled;
};

struct JobsStatistics {
  uint64_t queued = 0, running = 0;  // works, now
  uint64_t accepted = 0, refused_full = 0, cancelled = 0;
  uint64_t joined = 0, cache_hits = 0;  // jobs answered by an equal one in flight, or by the result cache
  Journal::Sizes journal;
};

class Jobs {
 public:
  // Opens the journal. Jobs can be asked about; new ones are refused with "starting" until begin.
  static Result<std::unique_ptr<Jobs>> open(const JobsOptions& options);
  ~Jobs();
  // `environment`: what an answer depends on beside the request: versions, device, sandbox. Brings back what an earlier
  // daemon left unfinished.
  Status begin(const std::string& environment);

  // All or none. Errors: "full" (try later), "request" (a batch row without a key), "starting", "draining", "io".
  // Returns the ids in order; a row whose (batch, key) is known already gets the id it has.
  Result<std::vector<std::string>> accept(std::vector<Submission> submissions);
  Result<std::optional<JobView>> find(const std::string& id) { return journal_->find(id); }
  Result<bool> cancel(const std::string& id);  // false when it had finished, or never was
  Result<uint64_t> cancel_batch(const std::string& batch);
  Journal& journal() { return *journal_; }

  // Called without a lock for each finished or cancelled job. Set before the first take.
  using Listener = std::function<void(const std::string& id, const std::string& batch)>;
  void on_finish(Listener listener) { listener_ = std::move(listener); }

  std::optional<Work> take();  // blocks; nothing once stopped
  void finish(uint64_t work, const Answer& answer);
  void give_back(uint64_t work);  // not finished: the next daemon runs it

  void drain();           // refuses new jobs and stops take(); what waits stays in the journal
  void cancel_running();  // asks running works to end early, to be given back
  void maintain();        // writes again what could not be written (a full disk), prunes; call every few seconds
  JobsStatistics statistics();

 private:
  struct Job {
    std::string id, batch;
    double accepted_at = 0;
  };
  struct Shared {  // a work with its jobs
    JobRequest request;
    std::string key;  // empty: not shared with equal jobs, not cached
    uint64_t bytes = 0;
    std::vector<Job> jobs;
    std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
    bool running = false;
    double started_at = 0;
  };
  using Works = std::unordered_map<uint64_t, Shared>;
  using Told = std::pair<std::string, std::string>;  // id and batch of a job whose end is to be told
  struct Intake;

  Jobs(const JobsOptions& options, std::unique_ptr<Journal> journal);
  // All but tell: mutex_ held.
  Result<Intake> plan(const std::vector<Submission>& submissions);
  Status room_for(const Intake& intake);
  bool shareable(const JobRequest& request) const;
  std::optional<Answer> cached(const std::string& key, JobKind kind);
  void enqueue(JobRequest request, std::string key, Job job, const std::string& client, int priority);
  std::optional<Told> detach(const std::string& id);
  void record(std::vector<Journal::Finish> finishes);
  void forget(Works::iterator work);
  void tell(const std::vector<Told>& finished);

  const JobsOptions options_;
  std::string environment_;
  bool begun_ = false;
  std::unique_ptr<Journal> journal_;
  Listener listener_;

  std::mutex mutex_;
  std::condition_variable wake_;
  FairQueue queue_;
  Works works_;
  std::unordered_map<std::string, uint64_t> by_key_, by_job_;
  std::vector<Journal::Finish> unwritten_;
  uint64_t next_work_ = 1, queued_bytes_ = 0;
  bool draining_ = false;
  double pruned_at_ = 0;
  JobsStatistics counts_;
};

}  // namespace kz::keck
