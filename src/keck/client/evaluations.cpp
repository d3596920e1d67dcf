#include "keck/client/evaluations.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/random.h"

namespace kz::keck {
namespace {

constexpr size_t kRowsPerPost = 64;
constexpr size_t kBytesPerPost = 6 << 20;  // of sources; JSON escapes may double it, the server takes 16 MiB
constexpr double kPollSeconds = 30;

Json row_of(const EvaluationRequest& request) { return to_json(request); }
Json row_of(const ModuleRequest& request) {
  Json json = to_json(request);
  json["kind"] = "module";
  return json;
}

size_t size_of(const EvaluationRequest& request) { return request.module.size() + request.candidate.size() + 512; }
size_t size_of(const ModuleRequest& request) { return request.module.size() + 512; }

void take(BatchItem&& item, std::optional<Verdict>& answer) { answer = std::move(item.verdict); }
void take(BatchItem&& item, std::optional<ModuleReport>& answer) { answer = std::move(item.report); }

void set_stage(Verdict& verdict) { verdict.stage = Stage::kHost; }
void set_stage(ModuleReport& report) { report.stage = "host"; }

template <typename Answer>
Answer unscored(const std::string& reason, const std::string& message) {
  Answer answer;
  answer.outcome = Outcome::kUnscored;
  set_stage(answer);
  answer.reason = reason;
  answer.message = message;
  return answer;
}

std::string new_batch_name() {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(secret_seed()),
                static_cast<unsigned long long>(secret_seed()));
  return text;
}

}  // namespace

// A job goes pending_ → in_flight_ (being sent, then sent) → results_.
template <typename Request, typename Answer>
class AsyncJobs<Request, Answer>::Impl {
 public:
  Impl(Client client, int max_in_flight)
      : client_(client.stoppable(stop_)), limit_(static_cast<size_t>(std::max(1, max_in_flight))) {
    sender_ = std::thread([this] { send_all(); });
    poller_ = std::thread([this] { poll_all(); });
  }

  ~Impl() {
    {
      const std::lock_guard guard(mutex_);
      *stop_ = true;
      pending_.clear();
    }
    changed_.notify_all();
    sender_.join();
    // Only now is it known what was posted: rows may run before the reply to their post is here.
    std::set<std::string> batches;
    {
      const std::lock_guard guard(mutex_);
      if (!in_flight_.empty() || post_unsure_) batches = posted_;
    }
    // Ends the poller's long-poll too: cancelled rows count as finished.
    for (const auto& batch : batches) (void)client_.cancel_batch(batch);
    poller_.join();
  }

  void submit(size_t key, const Request& request) {
    {
      const std::lock_guard guard(mutex_);
      pending_.push_back({key, request, 0, false});
    }
    changed_.notify_all();
  }

  std::optional<std::pair<size_t, Answer>> next(std::chrono::duration<double> timeout) {
    std::unique_lock guard(mutex_);
    arrived_.wait_for(guard, timeout, [&] { return !results_.empty() || count() == 0; });
    if (results_.empty()) return std::nullopt;
    auto result = std::move(results_.front());
    results_.pop_front();
    return result;
  }

  size_t outstanding() {
    const std::lock_guard guard(mutex_);
    return count();
  }

 private:
  struct Job {
    size_t key = 0;
    Request request;
    uint64_t generation = 0;
    bool sent = false;
  };
  using Rows = std::vector<BatchRow>;

  size_t count() const { return pending_.size() + in_flight_.size() + results_.size(); }

  // All below: mutex_ held.
  void deliver(const std::string& row, Answer answer) {
    const auto job = in_flight_.find(row);
    if (job == in_flight_.end()) return;
    if (job->second.sent) --sent_;
    results_.emplace_back(job->second.key, std::move(answer));
    in_flight_.erase(job);
    arrived_.notify_all();
    changed_.notify_all();
  }

  void send_again(const std::string& row) {
    const auto job = in_flight_.find(row);
    if (job == in_flight_.end()) return;
    if (job->second.sent) --sent_;
    job->second.sent = false;
    pending_.push_front(std::move(job->second));
    in_flight_.erase(job);
  }

  Rows next_rows() {
    Rows rows;
    size_t bytes = 0;
    while (!pending_.empty() && in_flight_.size() < limit_ && rows.size() < kRowsPerPost) {
      const size_t size = size_of(pending_.front().request);
      if (!rows.empty() && bytes + size > kBytesPerPost) break;
      bytes += size;
      const std::string row = std::to_string(++serial_);
      rows.push_back({row, row_of(pending_.front().request)});
      auto job = in_flight_.emplace(row, std::move(pending_.front())).first;
      job->second.generation = generation_;
      pending_.pop_front();
    }
    return rows;
  }

  // Threads.
  void send_all() {
    std::unique_lock guard(mutex_);
    while (true) {
      changed_.wait(guard, [&] { return *stop_ || (!pending_.empty() && in_flight_.size() < limit_); });
      if (*stop_) return;
      const Rows rows = next_rows();
      const std::string batch = batch_;
      const uint64_t generation = generation_;
      posted_.insert(batch);
      guard.unlock();
      send(batch, generation, rows);
      guard.lock();
    }
  }

  void send(const std::string& batch, uint64_t generation, const Rows& rows) {
    const auto ids = client_.submit_batch(batch, rows);
    // The server names one bad row and refuses all: the others must not suffer for it.
    if (!ids && ids.error().code == "request" && rows.size() > 1) {
      for (const auto& row : rows) send(batch, generation, {row});
      return;
    }
    const std::lock_guard guard(mutex_);
    for (const auto& row : rows) {
      if (!ids) {
        const bool refused = ids.error().code == "request";
        post_unsure_ = post_unsure_ || !refused;
        deliver(row.key, unscored<Answer>(refused ? "refused" : "server_unreachable", ids.error().message));
      } else if (generation != generation_) {
        send_again(row.key);  // the batch was lost meanwhile
      } else if (const auto job = in_flight_.find(row.key); job != in_flight_.end()) {
        job->second.sent = true;
        ++sent_;
      }
    }
    changed_.notify_all();
  }

  void poll_all() {
    std::unique_lock guard(mutex_);
    while (true) {
      changed_.wait(guard, [&] { return *stop_ || sent_ > 0; });
      if (*stop_) return;
      const std::string batch = batch_;
      const uint64_t cursor = cursor_;
      guard.unlock();
      auto items = client_.poll_batch(batch, cursor, kPollSeconds);
      guard.lock();
      if (items)
        arrived(std::move(*items));
      else
        lost(items.error());
    }
  }

  void arrived(std::vector<BatchItem>&& items) {
    for (auto& item : items) {
      cursor_ = std::max(cursor_, item.sequence);
      const std::string row = item.key;
      std::optional<Answer> answer;
      take(std::move(item), answer);
      deliver(row, answer ? std::move(*answer) : unscored<Answer>("cancelled", "the job was cancelled at the server"));
    }
  }

  // The server cannot be reached, or is another one than before, with another journal.
  void lost(const Error& error) {
    std::vector<std::string> sent;
    for (const auto& [row, job] : in_flight_)
      if (job.sent) sent.push_back(row);
    if (error.code == "not_found") {
      batch_ = new_batch_name();
      cursor_ = 0;
      ++generation_;
      for (const auto& row : sent) send_again(row);
    } else {
      for (const auto& row : sent) deliver(row, unscored<Answer>("server_unreachable", error.message));
    }
    changed_.notify_all();
  }

  const std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);
  const Client client_;
  const size_t limit_;

  std::mutex mutex_;
  std::condition_variable changed_, arrived_;
  std::deque<Job> pending_;
  std::map<std::string, Job> in_flight_;  // by the key of its row
  std::deque<std::pair<size_t, Answer>> results_;
  std::string batch_ = new_batch_name();
  uint64_t cursor_ = 0, serial_ = 0, generation_ = 0;
  size_t sent_ = 0;               // of in_flight_
  std::set<std::string> posted_;  // names of batches that the server may hold; more than one after a loss
  bool post_unsure_ = false;      // a post without a reply: the server may have its rows all the same
  std::thread sender_, poller_;
};

template <typename Request, typename Answer>
AsyncJobs<Request, Answer>::AsyncJobs(Client client, int max_in_flight)
    : impl_(std::make_unique<Impl>(std::move(client), max_in_flight)) {}
template <typename Request, typename Answer>
AsyncJobs<Request, Answer>::~AsyncJobs() = default;
template <typename Request, typename Answer>
AsyncJobs<Request, Answer>::AsyncJobs(AsyncJobs&&) noexcept = default;
template <typename Request, typename Answer>
AsyncJobs<Request, Answer>& AsyncJobs<Request, Answer>::operator=(AsyncJobs&&) noexcept = default;

template <typename Request, typename Answer>
void AsyncJobs<Request, Answer>::submit(size_t key, const Request& request) {
  impl_->submit(key, request);
}

template <typename Request, typename Answer>
std::optional<std::pair<size_t, Answer>> AsyncJobs<Request, Answer>::next(std::chrono::duration<double> timeout) {
  return impl_->next(timeout);
}

template <typename Request, typename Answer>
size_t AsyncJobs<Request, Answer>::outstanding() const {
  return impl_->outstanding();
}

template class AsyncJobs<EvaluationRequest, Verdict>;
template class AsyncJobs<ModuleRequest, ModuleReport>;

}  // namespace kz::keck
