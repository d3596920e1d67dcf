#include "keck/client/connections.h"

#include <httplib.h>
#include <signal.h>

#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace kz::keck {
namespace {

constexpr double kOrdinary = 30;  // seconds for a reply that nobody waits for

// The words of {"error": {"message"}}, or the start of whatever came.
std::string words_of(const Reply& reply) {
  const auto json = parse_json(reply.body, "reply");
  if (json && json->is_object()) {
    const Json error = json->value("error", Json::object());
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      return error["message"].get<std::string>();
  }
  return reply.body.substr(0, 200);
}

// cpp-httplib writes without MSG_NOSIGNAL: a server that goes away in the middle of a request would end our process.
// The signal is blocked in this thread for the call, and taken when it came.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    if (sigismember(&before_, SIGPIPE)) return;
    const timespec now = {0, 0};
    while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

bool worth_another_try(const Reply& reply) { return reply.status == 429 || reply.status == 502 || reply.status == 503; }

}  // namespace

struct Connections::Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<httplib::Client>> idle;
};

Connections::Connections(ClientOptions options) : options_(std::move(options)), pool_(std::make_unique<Pool>()) {}
Connections::~Connections() = default;

Result<Reply> Connections::once(const Call& call) {
  const NoSigpipe no_sigpipe;
  std::unique_ptr<httplib::Client> client;
  {
    const std::lock_guard guard(pool_->mutex);
    if (!pool_->idle.empty()) {
      client = std::move(pool_->idle.back());
      pool_->idle.pop_back();
    }
  }
  if (!client) {
    client = std::make_unique<httplib::Client>(options_.url);
    client->set_keep_alive(true);
    client->set_tcp_nodelay(true);
    const auto connect = static_cast<time_t>(options_.connect_timeout_s);
    client->set_connection_timeout(std::max<time_t>(connect, 1));
    client->set_write_timeout(static_cast<time_t>(kOrdinary));
  }
  client->set_read_timeout(static_cast<time_t>(kOrdinary + call.wait_s));

  httplib::Request request;
  request.method = call.method;
  request.path = call.path;
  if (!call.body.empty()) {
    request.body = call.body;
    request.headers.emplace("Content-Type", call.content_type);
  }
  if (!options_.token.empty()) request.headers.emplace("Authorization", "Bearer " + options_.token);
  auto result = client->send(request);
  if (!result) {
    const std::string why = httplib::to_string(result.error());
    return fail("connect", "cannot reach Keck at " + options_.url + " (" + why + "): is `keck serve` running there?");
  }
  Reply reply{result->status, std::move(result->body)};
  const std::lock_guard guard(pool_->mutex);
  pool_->idle.push_back(std::move(client));
  return reply;
}

Error Connections::refused(const Call& call, const Reply& reply) const {
  const std::string place = options_.url + " " + call.method + " " + call.path.substr(0, call.path.find('?')) + ": ";
  const std::string words = words_of(reply);
  switch (reply.status) {
    case 401:
      return {"auth", place + "the token is missing or wrong: give the server's token"};
    case 404:
      return {"not_found", place + words};
    case 429:
      return {"busy", place + words};
    case 503:
      return {"connect", place + words};
    case 400:
    case 405:
    case 409:
    case 410:
    case 413:
      return {"request", place + words};
    default:
      return {"protocol", place + "HTTP " + std::to_string(reply.status) + ", " + words + ": is this a Keck?"};
  }
}

Result<Reply> Connections::call(const Call& call) {
  const double deadline = steady_seconds() + (call.retry_s < 0 ? options_.retry_s : call.retry_s);
  for (double pause = 0.05;; pause = std::min(pause * 2, 2.0)) {
    auto reply = once(call);
    if (reply && reply->status < 300) return reply;
    if (reply && !worth_another_try(*reply)) return tl::unexpected(refused(call, *reply));
    if (steady_seconds() + pause > deadline || (call.stop && *call.stop))
      return reply ? Result<Reply>(tl::unexpected(refused(call, *reply))) : reply;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
}

}  // namespace kz::keck
