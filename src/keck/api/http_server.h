// HTTP/1.1 on one thread: connections are Asio coroutines, requests go to one handler. Boost stays inside the .cpp.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/result.h"
#include "keck/api/router.h"
#include "keck/api/waiting.h"

namespace kz::keck {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8787;               // 0: any free one
  uint64_t body_limit = 16ULL << 20;  // 413 above
  double idle_s = 75;                 // a connection that sends nothing for so long is closed
  double request_s = 60;              // a request must have arrived within
  int max_connections = 1024;         // more wait in the listen queue
};

class HttpServer : public Reactor {
 public:
  // Binds and listens; error "port" names the address and what to do.
  static Result<std::unique_ptr<HttpServer>> listen(const HttpServerOptions& options, Handler handler);
  ~HttpServer() override;

  std::string address() const;  // "127.0.0.1:8787" with the real port
  // Serves until stop() has been called and the replies under way are written (at most 2 s for those). `on_signal` runs
  // on this thread at each SIGTERM and SIGINT.
  void run(std::function<void(int signal)> on_signal);
  void stop();  // from any thread

  void post(std::function<void()> work) override;
  uint64_t after(double seconds, std::function<void()> work) override;
  void forget(uint64_t timer) override;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "HOST:PORT", "[::1]:PORT", ":PORT" or "PORT" into host and port; error "config".
Status parse_listen(const std::string& text, std::string& host, uint16_t& port);

}  // namespace kz::keck
