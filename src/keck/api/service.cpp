#include "keck/api/service.h"

#include <chrono>

#include "base/clock.h"
#include "base/log.h"
#include "keck/job/answers.h"

namespace kz::keck {
namespace {

// What an answer depends on beside the request. Counters and load must not be in it: they change by themselves.
std::string environment_of(const Json& capabilities) {
  Json json = capabilities;
  for (const char* volatile_part : {"workers", "statistics"}) json.erase(volatile_part);
  return dump_json(json);
}

}  // namespace

Service::Service(const ServiceOptions& options, std::unique_ptr<Jobs> jobs)
    : options_(options), jobs_(std::move(jobs)) {}

Service::~Service() {
  drain();
  for (auto& thread : threads_) thread.join();
}

std::unique_ptr<Router> Service::routes(Reactor& reactor) {
  waiting_ = std::make_unique<Waiting>(reactor);
  jobs_->on_finish([this](const std::string& id, const std::string& batch) {
    waiting_->announce(id);
    if (!batch.empty()) waiting_->announce("batch " + batch);
  });
  auto router = std::make_unique<Router>(options_.token);
  add_evaluation_routes(*router, *this);
  add_batch_routes(*router, *this);
  add_operation_routes(*router, *this);
  return router;
}

Handler Service::handler(const Router& router) {
  return [this, &router](HttpRequest request) -> Task<HttpResponse> {
    const Stopwatch watch;
    const std::string method = request.method;
    std::string route;
    HttpResponse response = co_await router.dispatch(std::move(request), &route);
    metrics_.replied(route.empty() ? "none" : route, method, response.status, watch.seconds());
    co_return response;
  };
}

Status Service::begin(std::unique_ptr<Evaluator> evaluator) {
  evaluator_ = std::move(evaluator);
  KZ_TRY(jobs_->begin(environment_of(evaluator_->capabilities())));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int workers = options_.workers > 0 ? options_.workers : cores;
  for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  threads_.emplace_back([this] { maintain(); });
  State expected = State::kStarting;
  state_.compare_exchange_strong(expected, State::kReady);
  return {};
}

void Service::work() {
  ++busy_;
  while (auto work = jobs_->take()) {
    Answer answer;
    try {
      if (const auto* evaluation = std::get_if<EvaluationRequest>(&work->request))
        answer = evaluator_->evaluate(*evaluation, *work->cancelled);
      else
        answer = evaluator_->check_module(std::get<ModuleRequest>(work->request), *work->cancelled);
    } catch (const std::exception& e) {
      log::error(std::string("evaluator: ") + e.what());
      answer = host_failure(kind_of(work->request), "internal", std::string("an error of the server: ") + e.what());
    }
    if (stopping_ && *work->cancelled) {
      jobs_->give_back(work->id);
      continue;
    }
    metrics_.answered(answer);
    jobs_->finish(work->id, answer);
  }
  --busy_;
}

void Service::maintain() {
  std::unique_lock guard(mutex_);
  while (!drained_.wait_for(guard, std::chrono::seconds(2), [&] { return state_ == State::kDraining; }))
    jobs_->maintain();
}

void Service::drain() {
  {
    const std::lock_guard guard(mutex_);
    if (!jobs_ || state_.exchange(State::kDraining) == State::kDraining) return;
  }
  drained_.notify_all();
  jobs_->drain();
  for (const Stopwatch watch; busy_ > 0 && !stopping_ && watch.seconds() < options_.drain_s;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (busy_ == 0) return;
  hurry();
  for (const Stopwatch watch; busy_ > 0 && watch.seconds() < 10;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void Service::hurry() {
  stopping_ = true;
  jobs_->cancel_running();
}

void Service::wake_all() {
  if (waiting_) waiting_->close();
}

void Service::failed() { state_ = State::kFailed; }

Json Service::capabilities() const {
  // evaluator_ is set once, before kReady is.
  return state_ == State::kStarting || !evaluator_ ? Json::object() : evaluator_->capabilities();
}

Json Service::evaluator_statistics() const {
  return state_ == State::kStarting || !evaluator_ ? Json::object() : evaluator_->statistics();
}

Json describe_api() {
  Router router("");
  Service service({}, nullptr);
  add_evaluation_routes(router, service);
  add_batch_routes(router, service);
  add_operation_routes(router, service);
  return router.openapi();
}

}  // namespace kz::keck
