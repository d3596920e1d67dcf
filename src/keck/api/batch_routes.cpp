// Batches: many jobs under one name. A client can add rows to its batch for ever and follow one cursor.
#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/text.h"
#include "keck/api/handlers.h"

namespace kz::keck {
namespace {

constexpr int kItemsPerReply = 256;

bool good_batch_id(const std::string& id) {
  return id.size() >= 8 && id.size() <= 64 &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
}

Result<Submission> row_of(const std::string& line, const HttpRequest& request, const std::string& batch,
                          size_t number) {
  const std::string place = "line " + std::to_string(number);
  KZ_ASSIGN(Json json, parse_json(line, place));
  if (!json.is_object()) return fail("request", place + " must be a JSON object");
  Submission submission;
  submission.batch = batch;
  JobKind kind = JobKind::kEvaluation;
  if (const auto it = json.find("kind"); it != json.end()) {
    if (*it != "evaluation" && *it != "module")
      return fail("request", place + ": field \"kind\" must be \"evaluation\" or \"module\"");
    kind = *it == "module" ? JobKind::kModule : JobKind::kEvaluation;
    json.erase(it);
  }
  submission.key = make_job_id();
  if (const auto it = json.find("key"); it != json.end()) {
    if (!it->is_string() || it->get_ref<const std::string&>().empty() || it->get_ref<const std::string&>().size() > 256)
      return fail("request", place + ": field \"key\" must be a string of 1 to 256 bytes");
    submission.key = it->get<std::string>();
    json.erase(it);
  }
  auto parsed = job_request_from_json(kind, json);
  if (!parsed) return fail("request", place + ": " + parsed.error().message);
  submission.client = client_of(request, "");
  if (const auto* evaluation = std::get_if<EvaluationRequest>(&*parsed)) {
    submission.client = client_of(request, evaluation->client);
    submission.priority = evaluation->priority;
  }
  submission.request = std::move(*parsed);
  return submission;
}

Task<HttpResponse> post(Service& service, HttpRequest request) {
  const auto named = request.query.find("id");
  const std::string batch = named == request.query.end() ? make_job_id() : named->second;
  if (!good_batch_id(batch))
    co_return error_response(400, "request", "query parameter \"id\" must be 8 to 64 of A-Z, a-z, 0-9, - and _");
  std::vector<Submission> rows;
  size_t number = 0;
  for (size_t begin = 0; begin < request.body.size();) {
    const size_t end = std::min(request.body.find('\n', begin), request.body.size());
    const std::string line(trim(std::string_view(request.body).substr(begin, end - begin)));
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    auto row = row_of(line, request, batch, number);
    if (!row) co_return error_response(row.error());
    rows.push_back(std::move(*row));
  }
  if (rows.empty()) co_return error_response(400, "request", "the batch has no rows: send one JSON object a line");
  const auto ids = service.jobs().accept(std::move(rows));
  if (!ids) co_return error_response(ids.error());
  HttpResponse response = json_response(202, {{"id", batch}, {"ids", *ids}});
  response.headers.emplace_back("Location", "/v1/batches/" + batch);
  co_return response;
}

Json item_of(JobView&& view) {
  Json item = {{"id", view.id},
               {"key", view.key},
               {"kind", to_string(view.kind)},
               {"state", to_string(view.state)},
               {"sequence", view.sequence}};
  if (view.state == JobState::kDone)
    item[view.kind == JobKind::kModule ? "report" : "verdict"] = std::move(view.answer);
  return item;
}

HttpResponse batch_reply(const std::string& id, const Journal::BatchCounts& counts, uint64_t after,
                         std::vector<JobView>&& views) {
  const uint64_t next = views.empty() ? after : views.back().sequence;
  Json items = Json::array();
  for (auto& view : views) items.push_back(item_of(std::move(view)));
  return json_response(200, {{"id", id},
                             {"total", counts.total},
                             {"finished", counts.finished},
                             {"cancelled", counts.cancelled},
                             {"next", next},
                             {"more", counts.last_sequence > next},
                             {"items", std::move(items)}});
}

// With ?after=N: as soon as something finished after N. Without: when everything has finished, from the first item on.
Task<HttpResponse> get(Service& service, HttpRequest request) {
  const auto wait = query_wait(request, service);
  if (!wait) co_return error_response(wait.error());
  const auto cursor = query_number(request, "after", -1, 0, 9e15);
  if (!cursor) co_return error_response(cursor.error());
  const bool first_is_enough = *cursor >= 0;
  const auto after = static_cast<uint64_t>(std::max(0.0, *cursor));
  const std::string id = request.parameters["id"];
  const double deadline = steady_seconds() + *wait;
  while (true) {
    const auto counts = service.jobs().journal().batch_counts(id);
    if (!counts) co_return error_response(counts.error());
    if (!*counts)
      co_return error_response(404, "not_found", "no batch has this id; finished jobs are forgotten after a while");
    const bool enough = first_is_enough ? (*counts)->last_sequence > after : (*counts)->finished == (*counts)->total;
    const double left = deadline - steady_seconds();
    if (enough || left <= 0 || service.waiting().closed()) {
      auto views = service.jobs().journal().batch_finished(id, after, kItemsPerReply);
      if (!views) co_return error_response(views.error());
      co_return batch_reply(id, **counts, after, std::move(*views));
    }
    co_await service.waiting().wait("batch " + id, left);
  }
}

Task<HttpResponse> cancel(Service& service, HttpRequest request) {
  const std::string id = request.parameters["id"];
  const auto counts = service.jobs().journal().batch_counts(id);
  if (!counts) co_return error_response(counts.error());
  if (!*counts)
    co_return error_response(404, "not_found", "no batch has this id; finished jobs are forgotten after a while");
  const auto cancelled = service.jobs().cancel_batch(id);
  if (!cancelled) co_return error_response(cancelled.error());
  co_return json_response(200, {{"id", id}, {"cancelled", *cancelled}});
}

}  // namespace

void add_batch_routes(Router& router, Service& service) {
  const RouteAnswer missing{404, "Error", "no such batch"};
  router.add({"POST",
              "/v1/batches",
              "submitBatch",
              "Takes many jobs at once, all or none; adds to a batch that exists.",
              "BatchRow",
              "application/jsonl",
              {{"id", "string", "The client's name for the batch: sending it again is harmless. Else one is made."}},
              {{202, "BatchAccepted", "all rows accepted, ids in their order"},
               {400, "Error", "names line and field"},
               {413, "Error", "the body is too large"},
               {429, "Error", "the queue has no room for all of them"},
               {503, "Error", "starting or shutting down"}},
              false,
              [&service](HttpRequest r) { return post(service, std::move(r)); }});
  router.add({"GET",
              "/v1/batches/{id}",
              "getBatch",
              "Finished jobs of a batch, oldest first, at most 256 a reply.",
              "",
              "",
              {{"wait", "number", "Seconds to wait: for the first item after `after`, or without it for all."},
               {"after", "integer", "Only what finished after this sequence number."}},
              {{200, "Batch", "the items"}, missing},
              false,
              [&service](HttpRequest r) { return get(service, std::move(r)); }});
  router.add({"DELETE",
              "/v1/batches/{id}",
              "cancelBatch",
              "Cancels what has not finished.",
              "",
              "",
              {},
              {{200, "BatchCancelled", "how many"}, missing},
              false,
              [&service](HttpRequest r) { return cancel(service, std::move(r)); }});
}

}  // namespace kz::keck
