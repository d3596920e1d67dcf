// keck/client: what a trainer or a tool uses to ask a Keck server. HTTP stays inside the .cpp files.
// Client makes single calls; Evaluations (evaluations.h) is for thousands; LocalServer (local_server.h) starts a
// server.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keck/job/request.h"
#include "keck/job/verdict.h"

namespace kz::keck {

struct ClientOptions {
  std::string url = "http://127.0.0.1:8787";
  std::string token;             // bearer token, when the server wants one
  double connect_timeout_s = 5;  // one attempt
  double retry_s = 60;           // refused connections, dropped replies, 429 and 503 are tried again for so long
};

// One job as a batch reports it: exactly one of verdict and report is set once it is finished.
struct BatchItem {
  std::string id, key, state;  // state: "queued" "running" "done" "cancelled"
  uint64_t sequence = 0;       // order of finishing; the cursor of the next poll
  std::optional<Verdict> verdict;
  std::optional<ModuleReport> report;
};

// A row of a batch: a request, and the caller's name for it. Sending a row twice under one key is harmless.
struct BatchRow {
  std::string key;
  Json request;  // to_json of an EvaluationRequest or, with "kind": "module" added, of a ModuleRequest
};

// Copies share one pool of keep-alive connections and may be used by several threads.
// Errors: "url" (malformed), "connect" (unreachable after retries), "auth", "request" (the server refused it, with its
// words), "not_found", "busy" (429 until the end of the retries), "protocol" (not a Keck). Each names the URL and what
// to do.
class Client {
 public:
  static Result<Client> make(const ClientOptions& options);

  // Blocks until the verdict is there; what goes wrong with the candidate is in the verdict, never in the error.
  Result<Verdict> evaluate(const EvaluationRequest& request) const;
  Result<ModuleReport> check_module(const ModuleRequest& request) const;

  Result<std::string> submit(const EvaluationRequest& request) const;               // the id of the job
  Result<Verdict> wait(const std::string& id, double timeout_s) const;              // error "timeout"
  Result<std::optional<Verdict>> poll(const std::string& id, double wait_s) const;  // nothing yet: nullopt
  Status cancel(const std::string& id) const;

  // Creates batch `batch` (8 to 64 of A-Za-z0-9_-) or adds rows to it; rows are all accepted or none. Returns their
  // ids.
  Result<std::vector<std::string>> submit_batch(const std::string& batch, const std::vector<BatchRow>& rows) const;
  // Items that finished after the cursor, oldest first; waits up to wait_s for the first one. May be empty.
  Result<std::vector<BatchItem>> poll_batch(const std::string& batch, uint64_t after, double wait_s) const;
  Status cancel_batch(const std::string& batch) const;

  Result<Json> get(const std::string& path) const;  // "/v1/capabilities", "/v1/devices", "/readyz"
  const ClientOptions& options() const;

  // The same connections; its calls give up, instead of trying again, once `stop` is true.
  Client stoppable(std::shared_ptr<const std::atomic<bool>> stop) const;

 private:
  class Impl;
  explicit Client(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
  std::shared_ptr<const std::atomic<bool>> stop_;
};

}  // namespace kz::keck
