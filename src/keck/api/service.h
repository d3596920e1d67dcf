// The daemon behind the API: jobs, the evaluator and the threads that bring them together. Its state goes
// starting → ready → draining; a job that was accepted and not finished when it ends is in the journal for the next
// one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "keck/api/metrics.h"
#include "keck/api/router.h"
#include "keck/api/waiting.h"
#include "keck/job/jobs.h"
#include "keck/worker/evaluator.h"

namespace kz::keck {

struct ServiceOptions {
  std::string token;        // empty: everybody who reaches the port
  double max_wait_s = 120;  // longest long-poll
  double drain_s = 30;      // running works may go on for so long after SIGTERM
  int workers = 0;          // works in flight; 0: cores
};

class Service {
 public:
  enum class State { kStarting, kReady, kFailed, kDraining };

  // Without jobs it can only describe itself.
  Service(const ServiceOptions& options, std::unique_ptr<Jobs> jobs);
  ~Service();  // drains

  // The routes; handlers wait through `reactor`, on whose thread they run. Call once.
  std::unique_ptr<Router> routes(Reactor& reactor);
  Handler handler(const Router& router);  // dispatch with metrics

  // The evaluator is there: takes up the journal's jobs and starts working.
  Status begin(std::unique_ptr<Evaluator> evaluator);
  // Stops taking works, waits for the running ones (drain_s, then they are stopped and kept for the next daemon).
  // Blocks.
  void drain();
  void hurry();                             // running works are stopped now, not at the end of drain_s
  void wake_all();                          // ends all long-polls; on the reactor's thread
  bool stuck() const { return busy_ > 0; }  // after drain: a work did not end although it was told to

  State state() const { return state_; }
  void failed();  // begin will not come
  const ServiceOptions& options() const { return options_; }
  Jobs& jobs() { return *jobs_; }
  Waiting& waiting() { return *waiting_; }
  Metrics& metrics() { return metrics_; }
  Json capabilities() const;
  Json evaluator_statistics() const;

 private:
  void work();
  void maintain();

  const ServiceOptions options_;
  std::unique_ptr<Jobs> jobs_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Waiting> waiting_;
  Metrics metrics_;
  std::atomic<State> state_{State::kStarting};
  std::atomic<bool> stopping_{false};
  std::atomic<int> busy_{0};
  std::mutex mutex_;
  std::condition_variable drained_;  // wakes maintain() at the end
  std::vector<std::thread> threads_;
};

Json describe_api();  // OpenAPI, without a server

// The parts of the route table, one file each.
void add_evaluation_routes(Router& router, Service& service);
void add_batch_routes(Router& router, Service& service);
void add_operation_routes(Router& router, Service& service);

}  // namespace kz::keck
