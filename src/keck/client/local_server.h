// A `keck serve` of our own for the life of one command: started on a free loopback port, stopped with its owner.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/layout.h"
#include "keck/client/client.h"

namespace kz::keck {

struct LocalServerOptions {
  Layout layout;
  fs::path state;                      // its journal and caches; empty: the first local-N of layout.state that is free
  fs::path log;                        // where its log goes; empty: state / "serve.log"
  uint16_t port = 0;                   // 0: any free one
  int workers = 0;                     // 0: the server's default
  std::vector<std::string> arguments;  // more arguments of `keck serve`, e.g. {"--set", "queue.limit=8192"}
  bool resume_jobs = false;            // run what an earlier server on this state left; else it is cancelled
  double start_timeout_s = 900;        // the first start of a machine builds shim and operator index: 45 CPU-s
};

// The server dies with this process whatever happens (it watches us by a pidfd), and is drained when the owner goes.
class LocalServer {
 public:
  // Waits until it is ready. Error "host" carries the last lines of its log.
  static Result<LocalServer> start(const LocalServerOptions& options);
  ~LocalServer();
  LocalServer(LocalServer&&) noexcept;
  LocalServer& operator=(LocalServer&&) noexcept;

  const std::string& url() const;
  int pid() const;
  void stop();  // SIGTERM, waits, SIGKILL after ten seconds

 private:
  struct Process;
  explicit LocalServer(std::unique_ptr<Process> process);
  std::unique_ptr<Process> process_;
};

}  // namespace kz::keck
