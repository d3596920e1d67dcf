// Many verdicts at once, for a training loop: submit never blocks, next hands them out as they come, in any order.
// Two threads and two connections serve any number of jobs: rows are sent in batches, verdicts come by one long-poll.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "keck/client/client.h"

namespace kz::keck {

// Common part of Evaluations and ModuleChecks. A result that could not be had (the server went away for longer than
// ClientOptions::retry_s, or refused the request) is `unscored`, reason "server_unreachable" or "refused", the words in
// message.
template <typename Request, typename Answer>
class AsyncJobs {
 public:
  // At most max_in_flight jobs are at the server; the rest waits here. Keep it below the server's queue limit.
  AsyncJobs(Client client, int max_in_flight);
  ~AsyncJobs();  // cancels what has not finished
  AsyncJobs(AsyncJobs&&) noexcept;
  AsyncJobs& operator=(AsyncJobs&&) noexcept;

  // `key` is the caller's; keys may repeat, each submit gives one result.
  void submit(size_t key, const Request& request);
  // The next result, or nothing within the timeout. Returns at once with nothing when no job is outstanding.
  std::optional<std::pair<size_t, Answer>> next(std::chrono::duration<double> timeout);
  size_t outstanding() const;  // submitted and not yet handed out by next

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

extern template class AsyncJobs<EvaluationRequest, Verdict>;
extern template class AsyncJobs<ModuleRequest, ModuleReport>;

using Evaluations = AsyncJobs<EvaluationRequest, Verdict>;
using ModuleChecks = AsyncJobs<ModuleRequest, ModuleReport>;

}  // namespace kz::keck
