#include "keck/api/handlers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/clock.h"

namespace kz::keck {

std::string where(const HttpRequest& request) { return request.method + " " + request.path; }

Result<double> query_number(const HttpRequest& request, const char* name, double fallback, double low, double high) {
  const auto it = request.query.find(name);
  if (it == request.query.end()) return fallback;
  char* end = nullptr;
  const double value = std::strtod(it->second.c_str(), &end);
  if (it->second.empty() || *end != '\0' || !(value >= low && value <= high))
    return fail("request", std::string("query parameter \"") + name + "\" must be a number from " + Json(low).dump() +
                               " to " + Json(high).dump());
  return value;
}

Result<double> query_wait(const HttpRequest& request, const Service& service) {
  return query_number(request, "wait", 0, 0, 1e9).map([&](double s) {
    return std::min(s, service.options().max_wait_s);
  });
}

std::string client_of(const HttpRequest& request, const std::string& given) {
  return given.empty() ? request.peer : given;
}

Task<HttpResponse> answer_when_done(Service& service, std::string id, double wait_s) {
  const double deadline = steady_seconds() + wait_s;
  while (true) {
    auto found = service.jobs().find(id);
    if (!found) co_return error_response(found.error());
    if (!*found)
      co_return error_response(404, "not_found", "no job has this id; finished jobs are forgotten after a while");
    const JobView& job = **found;
    if (job.state == JobState::kDone) co_return json_response(200, job.answer);
    if (job.state == JobState::kCancelled) co_return error_response(410, "cancelled", "this job was cancelled");
    const double left = deadline - steady_seconds();
    if (left <= 0 || service.waiting().closed()) {
      HttpResponse response = json_response(202, {{"id", id}, {"state", to_string(job.state)}});
      response.headers.emplace_back("Location",
                                    (job.kind == JobKind::kModule ? "/v1/modules/" : "/v1/evaluations/") + id);
      co_return response;
    }
    co_await service.waiting().wait(id, left);
  }
}

Task<HttpResponse> accept_one(Service& service, HttpRequest request, Submission submission) {
  const auto wait = query_wait(request, service);
  if (!wait) co_return error_response(wait.error());
  std::vector<Submission> one;
  one.push_back(std::move(submission));
  const auto ids = service.jobs().accept(std::move(one));
  if (!ids) co_return error_response(ids.error());
  co_return co_await answer_when_done(service, ids->front(), *wait);
}

}  // namespace kz::keck
