// The only unit that includes Boost.Beast: 13 s and 660 MB to compile.
#include "keck/api/http_server.h"

#include <fcntl.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <unordered_map>

#include "base/log.h"

namespace kz::keck {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return out;
}

// Asio leaves its sockets open across exec; the daemon starts programs that must not have them.
void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

using Parser = http::request_parser<http::string_body>;
using Reply = http::response<http::string_body>;

bool to_request(Parser& parser, const std::string& peer, HttpRequest& out) {
  auto& message = parser.get();
  out.method = std::string(message.method_string());
  out.peer = peer;
  for (const auto& field : message) {
    std::string& value = out.headers[lower(field.name_string())];
    value += (value.empty() ? "" : ", ") + std::string(field.value());
  }
  out.body = std::move(message.body());
  return parse_target(message.target(), out);
}

Reply to_reply(HttpResponse&& response, unsigned version, bool keep_alive) {
  Reply reply(static_cast<http::status>(response.status), version);
  reply.set(http::field::server, "keck");
  reply.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) reply.set(name, value);
  reply.keep_alive(keep_alive);
  reply.body() = std::move(response.body);
  reply.prepare_payload();
  return reply;
}

// Runs a handler's Task inside an Asio coroutine. What a handler throws is a 500, and a line in our log.
asio::awaitable<HttpResponse> run_handler(const Handler& handler, HttpRequest request) {
  const std::string what = request.method + " " + request.path;
  co_return co_await asio::async_initiate<decltype(asio::use_awaitable), void(HttpResponse)>(
      [&](auto token) {
        auto shared = std::make_shared<decltype(token)>(std::move(token));
        start<HttpResponse>(handler(std::move(request)), [shared, what](std::optional<HttpResponse> response,
                                                                        const std::exception_ptr& error) {
          if (error) {
            std::string why = "unknown exception";
            try {
              std::rethrow_exception(error);
            } catch (const std::exception& e) {
              why = e.what();
            } catch (...) {
            }
            log::error(what + ": " + why);
            response = error_response(500, "internal", "an error of the server; its log has it");
          }
          // Posted, never resumed in place: the caller may still be suspending.
          const auto executor = asio::get_associated_executor(*shared);
          asio::post(executor, [shared, r = std::move(*response)]() mutable { (*shared)(std::move(r)); });
        });
      },
      asio::use_awaitable);
}

}  // namespace

struct HttpServer::Impl {
  Impl(HttpServerOptions o, Handler h)
      : options(std::move(o)), handler(std::move(h)), acceptor(io), signals(io), last_call(io), room(io) {}

  asio::awaitable<void> accept_all();
  asio::awaitable<void> serve(tcp::socket socket);
  asio::awaitable<bool> exchange(beast::tcp_stream& stream, beast::flat_buffer& buffer, const std::string& peer);
  asio::awaitable<void> refuse(beast::tcp_stream& stream, HttpResponse response);
  void wait_for_signal();
  void finish_if_idle();

  const HttpServerOptions options;
  const Handler handler;
  std::function<void(int)> on_signal;
  uint64_t next_timer = 1;
  int connections = 0, busy = 0;  // busy: a request has arrived and its reply is not yet written
  bool stopping = false;
  asio::io_context io{1};  // before everything that lives in it
  tcp::acceptor acceptor;
  asio::signal_set signals;
  asio::steady_timer last_call, room;
  std::unordered_map<uint64_t, std::unique_ptr<asio::steady_timer>> timers;
};

asio::awaitable<void> HttpServer::Impl::accept_all() {
  while (!stopping) {
    if (connections >= options.max_connections) {
      error_code ignored;
      room.expires_at(asio::steady_timer::time_point::max());
      co_await room.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      continue;
    }
    error_code error;
    tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (stopping || error == asio::error::operation_aborted) co_return;
    if (error) {  // out of descriptors, most likely: do not spin
      log::warn("accept: " + error.message());
      room.expires_after(std::chrono::milliseconds(200));
      co_await room.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    close_on_exec(socket.native_handle());
    ++connections;
    asio::co_spawn(io, serve(std::move(socket)), [this](const std::exception_ptr&) {
      --connections;
      room.cancel();
      finish_if_idle();
    });
  }
}

asio::awaitable<void> HttpServer::Impl::serve(tcp::socket socket) {
  error_code error;
  socket.set_option(tcp::no_delay(true), error);
  const auto endpoint = socket.remote_endpoint(error);
  const std::string peer = error ? "" : endpoint.address().to_string();
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer;
  while (!stopping && co_await exchange(stream, buffer, peer)) {
  }
  stream.socket().shutdown(tcp::socket::shutdown_both, error);
}

// One request and its reply; false when the connection ends with it.
asio::awaitable<bool> HttpServer::Impl::exchange(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                                 const std::string& peer) {
  error_code error;
  Parser parser;
  parser.body_limit(options.body_limit);
  parser.header_limit(32 << 10);
  stream.expires_after(milliseconds(options.idle_s));
  co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
  const std::string limit = std::to_string(options.body_limit) + " bytes";
  if (error == http::error::body_limit) {
    co_await refuse(stream, error_response(413, "too_large", "the body is over the server's limit of " + limit));
    co_return false;
  }
  if (error == http::error::header_limit) {
    co_await refuse(stream, error_response(431, "too_large", "the headers are over 32 KiB"));
    co_return false;
  }
  if (error && error.category() == http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    co_await refuse(stream, error_response(400, "request", "not an HTTP request: " + error.message()));
    co_return false;
  }
  if (error) co_return false;

  stream.expires_after(milliseconds(options.request_s));
  if (lower(std::string_view(parser.get()[http::field::expect])) == "100-continue") {
    http::response<http::empty_body> go_on(http::status::continue_, parser.get().version());
    co_await http::async_write(stream, go_on, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return false;
  }
  co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
  if (error == http::error::body_limit) {
    co_await refuse(stream, error_response(413, "too_large", "the body is over the server's limit of " + limit));
    co_return false;
  }
  if (error) co_return false;

  const unsigned version = parser.get().version();
  const bool head_only = parser.get().method() == http::verb::head;
  const bool asked_keep_alive = parser.get().keep_alive();
  HttpRequest request;
  const bool target_good = to_request(parser, peer, request);
  if (head_only) request.method = "GET";

  ++busy;
  stream.expires_never();  // a long-poll waits for its verdict
  HttpResponse response;
  if (target_good)
    response = co_await run_handler(handler, std::move(request));
  else
    response = error_response(400, "request", "the path of the request cannot be read");
  const bool keep_alive = asked_keep_alive && !stopping;
  Reply reply = to_reply(std::move(response), version, keep_alive);
  if (head_only) reply.body().clear();
  stream.expires_after(milliseconds(options.request_s));
  co_await http::async_write(stream, reply, asio::redirect_error(asio::use_awaitable, error));
  --busy;
  co_return keep_alive && !error;
}

// Answers, then reads on for a little: closing with unread data would reset the connection before the answer is read.
asio::awaitable<void> HttpServer::Impl::refuse(beast::tcp_stream& stream, HttpResponse response) {
  error_code error;
  Reply reply = to_reply(std::move(response), 11, false);
  stream.expires_after(std::chrono::seconds(5));
  co_await http::async_write(stream, reply, asio::redirect_error(asio::use_awaitable, error));
  if (!error) stream.socket().shutdown(tcp::socket::shutdown_send, error);
  std::vector<char> sink(64 << 10);
  for (size_t left = 128 << 20; !error && left > 0;) {
    const size_t got =
        co_await stream.async_read_some(asio::buffer(sink), asio::redirect_error(asio::use_awaitable, error));
    left -= std::min(left, got);
  }
}

void HttpServer::Impl::wait_for_signal() {
  signals.async_wait([this](error_code error, int signal) {
    if (error) return;
    on_signal(signal);
    wait_for_signal();
  });
}

void HttpServer::Impl::finish_if_idle() {
  if (stopping && busy == 0) io.stop();
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpServerOptions& options, Handler handler) {
  auto impl = std::make_unique<Impl>(options, std::move(handler));
  const std::string where = options.host + ":" + std::to_string(options.port);
  error_code error;
  tcp::resolver resolver(impl->io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty())
    return fail("port", "cannot listen on " + where + ": unknown host; give --listen HOST:PORT, e.g. 127.0.0.1:8787");
  const tcp::endpoint endpoint = found.begin()->endpoint();
  impl->acceptor.open(endpoint.protocol(), error);
  if (!error) close_on_exec(impl->acceptor.native_handle());
  if (!error) impl->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) impl->acceptor.bind(endpoint, error);
  if (!error) impl->acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) {
    const char* remedy = error == asio::error::address_in_use
                             ? "stop what listens there, or give another --listen HOST:PORT (port 0: any free one)"
                             : "give another --listen HOST:PORT";
    return fail("port", "cannot listen on " + where + ": " + error.message() + "; " + remedy);
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

std::string HttpServer::address() const {
  error_code error;
  const auto endpoint = impl_->acceptor.local_endpoint(error);
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(endpoint.port());
}

void HttpServer::run(std::function<void(int signal)> on_signal) {
  impl_->on_signal = std::move(on_signal);
  if (impl_->on_signal) {
    impl_->signals.add(SIGTERM);
    impl_->signals.add(SIGINT);
    impl_->wait_for_signal();
  }
  asio::co_spawn(impl_->io, impl_->accept_all(), asio::detached);
  impl_->io.run();
}

void HttpServer::stop() {
  asio::post(impl_->io, [impl = impl_.get()] {
    impl->stopping = true;
    error_code ignored;
    impl->acceptor.close(ignored);
    impl->room.cancel();
    impl->last_call.expires_after(std::chrono::seconds(2));
    impl->last_call.async_wait([impl](error_code) { impl->io.stop(); });
    // Replies that are ready are written before this runs: it is queued behind them.
    asio::post(impl->io, [impl] { impl->finish_if_idle(); });
  });
}

void HttpServer::post(std::function<void()> work) { asio::post(impl_->io, std::move(work)); }

uint64_t HttpServer::after(double seconds, std::function<void()> work) {
  const uint64_t id = impl_->next_timer++;
  auto timer = std::make_unique<asio::steady_timer>(impl_->io, milliseconds(seconds));
  timer->async_wait([impl = impl_.get(), id, work = std::move(work)](error_code error) {
    if (error) return;
    impl->timers.erase(id);
    work();
  });
  impl_->timers.emplace(id, std::move(timer));
  return id;
}

void HttpServer::forget(uint64_t timer) { impl_->timers.erase(timer); }

Status parse_listen(const std::string& text, std::string& host, uint16_t& port) {
  const size_t colon = text.rfind(':');
  std::string host_part = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string port_part = colon == std::string::npos ? text : text.substr(colon + 1);
  if (host_part.size() > 2 && host_part.front() == '[' && host_part.back() == ']')
    host_part = host_part.substr(1, host_part.size() - 2);
  const bool digits =
      !port_part.empty() && port_part.size() <= 5 && port_part.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(port_part) > 65535)
    return fail("config", "\"" + text + "\" is no address to listen on: give HOST:PORT, e.g. 127.0.0.1:8787");
  if (!host_part.empty()) host = host_part;
  port = static_cast<uint16_t>(std::stoi(port_part));
  return {};
}

}  // namespace kz::keck
