#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "app/keck/commands.h"
#include "app/keck/serve_options.h"
#include "base/clock.h"

namespace kz::keck {
namespace {

// SIGTERM to ourselves when the process that started us ends. PR_SET_PDEATHSIG would fire at the end of its thread.
void watch_parent() {
  Fd parent(static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0)));
  if (!parent) return;
  std::thread([parent = std::move(parent)] {
    pollfd wait{parent.get(), POLLIN, 0};
    while (::poll(&wait, 1, -1) < 0) {
    }
    ::kill(::getpid(), SIGTERM);
  }).detach();
}

bool is_loopback(const std::string& host) { return host.rfind("127.", 0) == 0 || host == "::1" || host == "localhost"; }

// One daemon: HTTP answers from the first moment, the evaluator starts beside it.
class Daemon {
 public:
  Daemon(ServeOptions options, std::unique_ptr<Jobs> jobs)
      : options_(std::move(options)), service_(options_.service, std::move(jobs)) {}

  // The port is taken before anything slow begins.
  Status listen() {
    KZ_ASSIGN(server_, HttpServer::listen(options_.http, [this](HttpRequest r) { return handler_(std::move(r)); }));
    router_ = service_.routes(*server_);
    handler_ = service_.handler(*router_);
    return {};
  }
  std::string address() const { return server_->address(); }

  int run() {
    starter_ = std::thread([this] { start(); });
    server_->run([this](int signal) { on_signal(signal); });
    if (drainer_.joinable()) drainer_.join();
    // Stopped while the evaluator was still starting: nobody waits for it, its processes end with us.
    if (!started_) std::_Exit(kExitPass);
    if (service_.stuck()) {
      log::error("a job did not end when it was told to: leaving without it");
      std::_Exit(kExitPass);
    }
    starter_.join();
    if (!start_error_.message.empty()) return complain(start_error_);
    log::info("stopped");
    return kExitPass;
  }

 private:
  void start() {
    const Stopwatch watch;
    auto evaluator = Evaluator::start(options_.evaluator);
    const Status begun = evaluator ? service_.begin(std::move(*evaluator)) : Status(tl::unexpected(evaluator.error()));
    if (!begun) {
      service_.failed();
      start_error_ = begun.error();
      started_ = true;
      server_->stop();
      return;
    }
    started_ = true;
    log::info("ready after " + std::to_string(static_cast<int>(1e3 * watch.seconds())) + " ms");
  }

  void on_signal(int) {
    if (drainer_.joinable()) {
      log::warn("a second signal: running jobs are stopped, the next daemon takes them up");
      service_.hurry();
      return;
    }
    log::info("draining: running jobs end, waiting ones are kept for the next daemon");
    drainer_ = std::thread([this] {
      service_.drain();
      server_->post([this] {
        service_.wake_all();
        server_->stop();
      });
    });
  }

  const ServeOptions options_;
  Service service_;
  Handler handler_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<HttpServer> server_;
  std::thread starter_, drainer_;
  std::atomic<bool> started_{false};
  Error start_error_;
};

}  // namespace

int serve(const ServeCommand& command) {
  if (command.die_with_parent) watch_parent();
  const auto layout = find_layout();
  if (!layout) return complain(layout.error());
  auto options = serve_options(command, *layout);
  if (!options) return complain(options.error());
  log::set_level(options->log_level);
  auto jobs = Jobs::open(options->jobs);
  if (!jobs) return complain(jobs.error());
  const bool open_to_all = !is_loopback(options->http.host) && options->service.token.empty();

  Daemon daemon(std::move(*options), std::move(*jobs));
  if (const auto listening = daemon.listen(); !listening) return complain(listening.error());
  if (open_to_all) log::warn("everybody who reaches this address may run code here: set token_file or KECK_TOKEN");
  if (!command.port_file.empty())
    if (const auto written = write_file_atomic(command.port_file, daemon.address() + "\n"); !written)
      return complain(written.error());
  log::info("listening on http://" + daemon.address());
  return daemon.run();
}

}  // namespace kz::keck
