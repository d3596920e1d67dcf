#include "lm/openai.h"

#include <httplib.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/json.h"

namespace kz::lm {
namespace {

struct Address {
  std::string origin;  // "http://host:port"
  std::string prefix;  // "/v1", or what the URL says before /v1
  std::string model;
};

Result<Address> parse_address(std::string url) {
  Address a;
  const std::string asked = url;
  if (const size_t hash = url.find('#'); hash != std::string::npos) {
    a.model = url.substr(hash + 1);
    url.resize(hash);
  }
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos || scheme + 3 >= url.size()) {
    return fail("url", "'" + asked + "' is no address of a model server: write http://HOST:PORT");
  }
  const size_t path = url.find('/', scheme + 3);
  a.origin = url.substr(0, path);
  a.prefix = path == std::string::npos ? "" : url.substr(path);
  while (!a.prefix.empty() && a.prefix.back() == '/') a.prefix.pop_back();
  if (a.prefix.size() < 3 || a.prefix.compare(a.prefix.size() - 3, 3, "/v1") != 0) a.prefix += "/v1";
  return a;
}

std::string key_of(const OpenAiOptions& options) {
  if (!options.key.empty()) return options.key;
  for (const char* name : {"KERNELZERO_API_KEY", "OPENAI_API_KEY"}) {
    if (const char* value = std::getenv(name); value && *value) return value;
  }
  return "";
}

// The server's own words, in one line.
std::string words_of(const std::string& body) {
  std::string words = body.substr(0, 200);
  if (const auto json = parse_json(body, "reply"); json && json->is_object() && json->contains("error")) {
    const Json& error = (*json)["error"];
    if (error.is_string()) words = error.get<std::string>();
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      words = error["message"].get<std::string>();
  }
  for (char& c : words) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return words;
}

class Server : public Generator {
 public:
  Server(OpenAiOptions options, Address address)
      : options_(std::move(options)), address_(std::move(address)), key_(key_of(options_)) {}

  Status connect() {
    KZ_ASSIGN(const std::string body, call("GET", "/models", ""));
    auto json = parse_json(body, address_.origin + address_.prefix + "/models");
    if (!json || !json->is_object() || !json->contains("data") || !(*json)["data"].is_array()) {
      return fail("protocol",
                  address_.origin + " answers, but not as an OpenAI-compatible server: does its address end in /v1?");
    }
    model_ = !options_.model.empty() ? options_.model : address_.model;
    const Json& models = (*json)["data"];
    if (model_.empty() && !models.empty() && models[0].is_object()) model_ = models[0].value("id", "");
    if (model_.empty())
      return fail("request", address_.origin + " lists no model: name one as " + options_.url + "#NAME");
    return {};
  }

  Result<std::vector<Completion>> generate(const std::vector<Prompt>& prompts, const Sampling& sampling,
                                           const std::function<void(size_t, const Completion&)>& done) override;

 private:
  Result<std::string> call(const std::string& method, const std::string& path, const std::string& body) const;
  Result<std::string> once(const std::string& method, const std::string& path, const std::string& body,
                           bool& again) const;
  Result<Completion> complete(const Prompt& prompt, const Sampling& sampling) const;

  OpenAiOptions options_;
  Address address_;
  std::string key_, model_;
};

Result<std::string> Server::once(const std::string& method, const std::string& path, const std::string& body,
                                 bool& again) const {
  httplib::Client client(address_.origin);
  client.set_connection_timeout(10);
  client.set_read_timeout(static_cast<time_t>(options_.timeout_s));
  httplib::Request request;
  request.method = method;
  request.path = address_.prefix + path;
  if (!body.empty()) {
    request.body = body;
    request.headers.emplace("Content-Type", "application/json");
  }
  if (!key_.empty()) request.headers.emplace("Authorization", "Bearer " + key_);
  const Stopwatch watch;
  const auto reply = client.send(request);
  again = !reply || reply->status == 429 || reply->status == 502 || reply->status == 503;
  if (!reply) {
    again = reply.error() == httplib::Error::Connection;
    if (reply.error() == httplib::Error::Read) {
      const bool late = watch.seconds() >= options_.timeout_s;
      return fail("connect", "the model server at " + address_.origin +
                                 (late ? " gave no answer within " + std::to_string(std::lround(options_.timeout_s)) +
                                             " s: ask for fewer --max-new-tokens, or see whether it still works"
                                       : " broke off its answer: does it still run?"));
    }
    return fail("connect", "cannot reach the model server at " + address_.origin + " (" +
                               httplib::to_string(reply.error()) + "): is it running there?");
  }
  if (reply->status == 200) return reply->body;
  const std::string place =
      address_.origin + request.path + " answers " + std::to_string(reply->status) + ": " + words_of(reply->body);
  if (reply->status == 401 || reply->status == 403) return fail("auth", place + ": set KERNELZERO_API_KEY");
  if (reply->status == 404)
    return fail("protocol", place + ": is it an OpenAI-compatible server, and the model's name right?");
  if (again) return fail("busy", place + ": it is loading or busy, try again later");
  return fail("request", place);
}

Result<std::string> Server::call(const std::string& method, const std::string& path, const std::string& body) const {
  // A first question to an address where nobody listens is a mistake; a server that is there may be loading its model.
  const double begin = steady_seconds();
  const double patience = method == "GET" ? std::min(5.0, options_.retry_s) : options_.retry_s;
  for (double pause = 0.25;; pause = std::min(8.0, pause * 2)) {
    bool again = false;
    auto reply = once(method, path, body, again);
    const double limit = !reply && reply.error().code == "busy" ? options_.retry_s : patience;
    if (reply || !again || steady_seconds() + pause > begin + limit) return reply;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
}

Result<Completion> Server::complete(const Prompt& prompt, const Sampling& sampling) const {
  Json body{{"model", model_},
            {"temperature", sampling.temperature},
            {"max_tokens", sampling.max_new_tokens},
            {"seed", static_cast<int64_t>(prompt.seed & 0x7fffffff)}};
  if (sampling.top_p < 1) body["top_p"] = sampling.top_p;
  const bool chat = !prompt.user.empty();
  if (chat) {
    body["messages"] = Json::array();
    if (!prompt.system.empty()) body["messages"].push_back({{"role", "system"}, {"content", prompt.system}});
    body["messages"].push_back({{"role", "user"}, {"content", prompt.user}});
  } else {
    body["prompt"] = prompt.text;
    if (!sampling.stop.empty()) body["stop"] = sampling.stop;
  }
  KZ_ASSIGN(const std::string reply, call("POST", chat ? "/chat/completions" : "/completions", dump_json(body)));
  KZ_ASSIGN(const Json json, parse_json(reply, address_.origin));
  const Json choices = json.is_object() ? json.value("choices", Json::array()) : Json::array();
  if (!choices.is_array() || choices.empty() || !choices[0].is_object()) {
    return fail("protocol", address_.origin + " sent no choices: " + words_of(reply));
  }
  Completion c;
  const Json text =
      chat ? choices[0].value("message", Json::object()).value("content", Json()) : choices[0].value("text", Json());
  if (text.is_string()) c.text = text.get<std::string>();
  const Json reason = choices[0].value("finish_reason", Json());
  c.finish = reason.is_string() && reason == "length" ? "length" : "stop";
  return c;
}

Result<std::vector<Completion>> Server::generate(const std::vector<Prompt>& prompts, const Sampling& sampling,
                                                 const std::function<void(size_t, const Completion&)>& done) {
  std::vector<Completion> out(prompts.size());
  std::mutex mutex;
  std::condition_variable ready;
  std::deque<size_t> finished;
  std::atomic<size_t> next{0};
  size_t failed = 0;
  Error first;
  const auto work = [&] {
    for (size_t i; (i = next++) < prompts.size();) {
      Result<Completion> c = fail("", "");
      try {
        c = complete(prompts[i], sampling);
      } catch (const std::exception& e) {
        c = fail("protocol", address_.origin + ": " + e.what());
      }
      const std::lock_guard guard(mutex);
      if (c) {
        out[i] = std::move(*c);
      } else {
        out[i].finish = "error";
        out[i].error = c.error().message;
        if (failed++ == 0) first = c.error();
      }
      finished.push_back(i);
      ready.notify_one();
    }
  };
  std::vector<std::jthread> threads;
  const size_t n = std::min(prompts.size(), static_cast<size_t>(std::max(1, options_.parallel)));
  for (size_t t = 0; t < n; ++t) threads.emplace_back(work);
  for (size_t seen = 0; seen < prompts.size(); ++seen) {
    std::unique_lock lock(mutex);
    ready.wait(lock, [&] { return !finished.empty(); });
    const size_t i = finished.front();
    finished.pop_front();
    lock.unlock();
    if (done) done(i, out[i]);
  }
  if (failed > 0 && failed == prompts.size()) return tl::unexpected(first);
  return out;
}

}  // namespace

bool is_server(const std::string& model) { return model.starts_with("http://") || model.starts_with("https://"); }

Result<std::shared_ptr<Generator>> open_server(const OpenAiOptions& options) {
  KZ_ASSIGN(auto address, parse_address(options.url));
  auto server = std::make_shared<Server>(options, std::move(address));
  KZ_TRY(server->connect());
  return std::shared_ptr<Generator>(server);
}

}  // namespace kz::lm
