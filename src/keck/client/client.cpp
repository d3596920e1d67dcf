#include "keck/client/client.h"

#include <algorithm>

#include "base/clock.h"
#include "keck/client/connections.h"

namespace kz::keck {
namespace {

constexpr double kLongPoll = 60;  // seconds of one request; longer waits are several

std::string seconds_text(double seconds) { return std::to_string(std::max(0.0, seconds)); }

// Ids become part of a path: nothing may be in them that means something there.
Status check_id(const std::string& id) {
  const bool good = !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_';
  });
  if (!good) return fail("request", "\"" + id.substr(0, 80) + "\" is no id of a job or batch");
  return {};
}

Result<Json> body_of(const Reply& reply, const std::string& url) {
  auto json = parse_json(reply.body, url);
  if (!json) return fail("protocol", json.error().message + ": is this a Keck?");
  return json;
}

Result<std::string> id_of(const Json& json, const std::string& url) {
  if (json.is_object() && json.contains("id") && json["id"].is_string()) return json["id"].get<std::string>();
  return fail("protocol", url + ": the reply has no id: is this a Keck?");
}

Result<BatchItem> item_from(const Json& json) {
  BatchItem item;
  try {
    item.id = json.at("id").get<std::string>();
    item.key = json.at("key").get<std::string>();
    item.state = json.at("state").get<std::string>();
    item.sequence = json.at("sequence").get<uint64_t>();
    if (json.contains("verdict")) {
      KZ_ASSIGN(item.verdict, verdict_from_json(json["verdict"]));
    }
    if (json.contains("report")) {
      KZ_ASSIGN(item.report, module_report_from_json(json["report"]));
    }
  } catch (const Json::exception& e) {
    return fail("protocol", std::string("not an item of a batch: ") + e.what());
  }
  return item;
}

}  // namespace

class Client::Impl : public Connections {
 public:
  using Connections::Connections;

  // Submits to `path` and polls until the answer is there.
  template <typename Answer, typename Read>
  Result<Answer> ask(const std::string& path, const Json& request, const std::atomic<bool>* stop, Read read) {
    KZ_ASSIGN(Reply reply, call({.method = "POST",
                                 .path = path + "?wait=" + seconds_text(kLongPoll),
                                 .body = dump_json(request),
                                 .wait_s = kLongPoll,
                                 .stop = stop}));
    while (true) {
      KZ_ASSIGN(const Json json, body_of(reply, options().url));
      if (reply.status == 200) return read(json);
      KZ_ASSIGN(const std::string id, id_of(json, options().url));
      KZ_TRY(check_id(id));
      KZ_ASSIGN(
          reply,
          call({.path = path + "/" + id + "?wait=" + seconds_text(kLongPoll), .wait_s = kLongPoll, .stop = stop}));
    }
  }
};

Result<Client> Client::make(const ClientOptions& options) {
  ClientOptions checked = options;
  if (checked.url.find("://") == std::string::npos) checked.url = "http://" + checked.url;
  const size_t scheme = checked.url.rfind("https://", 0) == 0 ? 8 : checked.url.rfind("http://", 0) == 0 ? 7 : 0;
  while (checked.url.size() > scheme && checked.url.back() == '/') checked.url.pop_back();
  if (scheme == 0 || checked.url.size() == scheme || checked.url.find('/', scheme) != std::string::npos)
    return fail("url", "\"" + options.url + "\" is no URL of a Keck: give http://HOST:PORT");
  return Client(std::make_shared<Impl>(checked));
}

Client Client::stoppable(std::shared_ptr<const std::atomic<bool>> stop) const {
  Client client = *this;
  client.stop_ = std::move(stop);
  return client;
}

const ClientOptions& Client::options() const { return impl_->options(); }

Result<Verdict> Client::evaluate(const EvaluationRequest& request) const {
  return impl_->ask<Verdict>("/v1/evaluations", to_json(request), stop_.get(), verdict_from_json);
}

Result<ModuleReport> Client::check_module(const ModuleRequest& request) const {
  return impl_->ask<ModuleReport>("/v1/modules", to_json(request), stop_.get(), module_report_from_json);
}

Result<std::string> Client::submit(const EvaluationRequest& request) const {
  KZ_ASSIGN(
      const Reply reply,
      impl_->call(
          {.method = "POST", .path = "/v1/evaluations", .body = dump_json(to_json(request)), .stop = stop_.get()}));
  KZ_ASSIGN(const Json json, body_of(reply, options().url));
  return id_of(json, options().url);
}

Result<std::optional<Verdict>> Client::poll(const std::string& id, double wait_s) const {
  KZ_TRY(check_id(id));
  KZ_ASSIGN(const Reply reply, impl_->call({.path = "/v1/evaluations/" + id + "?wait=" + seconds_text(wait_s),
                                            .wait_s = wait_s,
                                            .stop = stop_.get()}));
  if (reply.status == 202) return std::optional<Verdict>();
  KZ_ASSIGN(const Json json, body_of(reply, options().url));
  return verdict_from_json(json).map([](Verdict&& v) { return std::optional<Verdict>(std::move(v)); });
}

Result<Verdict> Client::wait(const std::string& id, double timeout_s) const {
  const double deadline = steady_seconds() + timeout_s;
  while (true) {
    const double left = deadline - steady_seconds();
    KZ_ASSIGN(auto verdict, poll(id, std::clamp(left, 0.0, kLongPoll)));
    if (verdict) return std::move(*verdict);
    if (left <= 0) return fail("timeout", "no verdict of job " + id + " within the time given");
  }
}

Status Client::cancel(const std::string& id) const {
  KZ_TRY(check_id(id));
  return impl_->call({.method = "DELETE", .path = "/v1/evaluations/" + id, .stop = stop_.get()}).map([](const Reply&) {
  });
}

Result<std::vector<std::string>> Client::submit_batch(const std::string& batch,
                                                      const std::vector<BatchRow>& rows) const {
  KZ_TRY(check_id(batch));
  std::string lines;
  for (const auto& row : rows) {
    Json line = row.request;
    if (!row.key.empty()) line["key"] = row.key;
    lines += dump_json(line) + "\n";
  }
  KZ_ASSIGN(const Reply reply, impl_->call({.method = "POST",
                                            .path = "/v1/batches?id=" + batch,
                                            .body = std::move(lines),
                                            .content_type = "application/jsonl",
                                            .stop = stop_.get()}));
  KZ_ASSIGN(const Json json, body_of(reply, options().url));
  try {
    return json.at("ids").get<std::vector<std::string>>();
  } catch (const Json::exception&) {
    return fail("protocol", options().url + ": the reply has no ids: is this a Keck?");
  }
}

Result<std::vector<BatchItem>> Client::poll_batch(const std::string& batch, uint64_t after, double wait_s) const {
  KZ_TRY(check_id(batch));
  KZ_ASSIGN(const Reply reply, impl_->call({.path = "/v1/batches/" + batch + "?after=" + std::to_string(after) +
                                                    "&wait=" + seconds_text(wait_s),
                                            .wait_s = wait_s,
                                            .stop = stop_.get()}));
  KZ_ASSIGN(const Json json, body_of(reply, options().url));
  std::vector<BatchItem> items;
  for (const auto& entry : json.value("items", Json::array())) {
    KZ_ASSIGN(auto item, item_from(entry));
    items.push_back(std::move(item));
  }
  return items;
}

Status Client::cancel_batch(const std::string& batch) const {
  KZ_TRY(check_id(batch));
  return impl_->call({.method = "DELETE", .path = "/v1/batches/" + batch, .stop = stop_.get()}).map([](const Reply&) {
  });
}

Result<Json> Client::get(const std::string& path) const {
  KZ_ASSIGN(const Reply reply, impl_->call({.path = path, .stop = stop_.get()}));
  return body_of(reply, options().url);
}

}  // namespace kz::keck
