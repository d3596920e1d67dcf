// For tests: the real API over a real port, with the scripted evaluator behind it.
#pragma once

#include <memory>
#include <thread>

#include "keck/api/http_server.h"
#include "keck/api/scripted_evaluator.h"
#include "keck/api/service.h"

namespace kz::keck {

class TestServer {
 public:
  struct Options {
    fs::path state;
    uint16_t port = 0;
    std::string token = "";
    size_t queue_limit = 4096;
    int workers = 2;
    uint64_t body_limit = 16 << 20;
  };
  explicit TestServer(const Options& options) {
    JobsOptions jobs;
    jobs.journal.file = options.state / "journal.db";
    jobs.queue_limit = options.queue_limit;
    ServiceOptions service;
    service.token = options.token;
    service.workers = options.workers;
    service.drain_s = 0.1;
    service_ = std::make_unique<Service>(service, *Jobs::open(jobs));
    HttpServerOptions http;
    http.port = options.port;
    http.body_limit = options.body_limit;
    server_ = *HttpServer::listen(http, [this](HttpRequest r) { return handler_(std::move(r)); });
    router_ = service_->routes(*server_);
    handler_ = service_->handler(*router_);
    auto scripted = std::make_unique<ScriptedEvaluator>();
    evaluator = scripted.get();
    (void)service_->begin(std::move(scripted));
    thread_ = std::thread([this] { server_->run({}); });
  }
  ~TestServer() {
    service_->drain();
    server_->post([this] {
      service_->wake_all();
      server_->stop();
    });
    thread_.join();
  }

  std::string url() const { return "http://" + server_->address(); }
  uint16_t port() const { return static_cast<uint16_t>(std::stoi(url().substr(url().rfind(':') + 1))); }
  Service& service() { return *service_; }

  ScriptedEvaluator* evaluator = nullptr;

 private:
  std::unique_ptr<Service> service_;
  Handler handler_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

}  // namespace kz::keck
