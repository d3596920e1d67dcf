// What the daemon must not forget: jobs with their requests and answers, and the result cache. One SQLite file in WAL
// mode; a job that was written survives kill -9 of the daemon at any instant (a power cut may cost the last moments).
// Thread-safe. Errors "io" name the file and the cause (a full disk among them); "version" a file of another program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "keck/job/job.h"

namespace kz::keck {

struct JournalOptions {
  fs::path file;
  uint64_t result_cache_bytes = 256ULL << 20;  // oldest answers are evicted
  double keep_s = 72 * 3600;                   // finished jobs are forgotten after so long
  double lock_wait_s = 5;                      // for a daemon that was killed and is not quite gone
};

// A job as it is written down. request is dropped once the answer is there.
struct JournalJob {
  std::string id, client, batch, key;
  JobKind kind = JobKind::kEvaluation;
  JobState state = JobState::kQueued;
  int priority = 0;
  int attempts = 0;  // how often a daemon began it; one that keeps killing daemons is given up
  std::string request;
};

class Journal {
 public:
  // The file is created, upgraded from an older schema, or refused by name when a newer program wrote it.
  static Result<std::unique_ptr<Journal>> open(const JournalOptions& options);
  ~Journal();
  static bool in_use(const fs::path& file);  // another daemon has it open

  Status started(const std::vector<std::string>& ids);
  Status released(const std::vector<std::string>& ids);  // given back by a draining daemon: the attempt does not count
  struct Finish {
    std::string id;
    JobState state = JobState::kDone;
    std::string answer;  // JSON text, empty for a cancelled job
  };
  // All or none. `answered` are those of the jobs whose answer is known already.
  Status add(const std::vector<JournalJob>& jobs, const std::vector<Finish>& answered = {});
  // Gives each a sequence number, in this order. A job that is finished already keeps what it has.
  Status finished(const std::vector<Finish>& jobs);

  Result<std::vector<JournalJob>> unfinished();  // oldest first
  Result<std::optional<JobView>> find(const std::string& id);
  // The id of the row of a batch that was sent under this key.
  Result<std::optional<std::string>> row_id(const std::string& batch, const std::string& key);
  struct BatchCounts {
    uint64_t total = 0, finished = 0, cancelled = 0, last_sequence = 0;
  };
  Result<std::optional<BatchCounts>> batch_counts(const std::string& batch);
  Result<std::vector<JobView>> batch_finished(const std::string& batch, uint64_t after, int limit);
  Result<std::vector<std::string>> batch_unfinished(const std::string& batch);

  std::optional<std::string> cached(const std::string& work_key);  // an answer's JSON text
  Status cache(const std::string& work_key, const std::string& answer);

  struct Sizes {
    uint64_t jobs = 0, cached_results = 0, cached_bytes = 0, file_bytes = 0;
  };
  Sizes sizes();
  Status prune();  // forgets old finished jobs and evicts cached results over the cap

 private:
  struct Impl;
  explicit Journal(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kz::keck
