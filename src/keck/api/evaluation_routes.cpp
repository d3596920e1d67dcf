// POST, GET and DELETE of single jobs: evaluations and modules are the same but for their request and their answer.
#include "keck/api/handlers.h"

namespace kz::keck {
namespace {

Task<HttpResponse> post(Service& service, JobKind kind, HttpRequest request) {
  const auto body = parse_json(request.body, where(request));
  if (!body) co_return error_response(body.error());
  auto parsed = job_request_from_json(kind, *body);
  if (!parsed) co_return error_response(parsed.error());
  Submission submission;
  submission.client = client_of(request, "");
  if (const auto* evaluation = std::get_if<EvaluationRequest>(&*parsed)) {
    submission.client = client_of(request, evaluation->client);
    submission.priority = evaluation->priority;
  }
  submission.request = std::move(*parsed);
  co_return co_await accept_one(service, std::move(request), std::move(submission));
}

Task<HttpResponse> get(Service& service, JobKind kind, HttpRequest request) {
  const auto wait = query_wait(request, service);
  if (!wait) co_return error_response(wait.error());
  const std::string id = request.parameters["id"];
  const auto found = service.jobs().find(id);
  if (found && *found && (*found)->kind != kind)
    co_return error_response(404, "not_found", "this id is of the other kind of job");
  co_return co_await answer_when_done(service, id, *wait);
}

Task<HttpResponse> cancel(Service& service, HttpRequest request) {
  const std::string id = request.parameters["id"];
  const auto cancelled = service.jobs().cancel(id);
  if (!cancelled) co_return error_response(cancelled.error());
  if (*cancelled) co_return json_response(200, {{"id", id}, {"state", "cancelled"}});
  const auto found = service.jobs().find(id);
  if (!found) co_return error_response(found.error());
  if (!*found)
    co_return error_response(404, "not_found", "no job has this id; finished jobs are forgotten after a while");
  if ((*found)->state == JobState::kCancelled) co_return json_response(200, {{"id", id}, {"state", "cancelled"}});
  co_return error_response(409, "conflict", "this job has finished");
}

void add(Router& router, Service& service, JobKind kind) {
  const bool module = kind == JobKind::kModule;
  const std::string path = module ? "/v1/modules" : "/v1/evaluations";
  const std::string name = module ? "Module" : "Evaluation", answer = module ? "ModuleReport" : "Verdict";
  const RouteParameter wait{"wait", "number", "Seconds to wait for the answer; 0 answers at once."};
  const RouteAnswer pending{202, "JobStatus", "not finished yet"}, missing{404, "Error", "no such job"};

  router.add({"POST",
              path,
              "submit" + name,
              module ? "Passes one module through the Proposer's gate." : "Judges one candidate.",
              name + "Request",
              "application/json",
              {wait},
              {{200, answer, "finished within the wait"},
               pending,
               {400, "Error", "names the field"},
               {413, "Error", "the body is too large"},
               {429, "Error", "the queue is full"},
               {503, "Error", "starting or shutting down"}},
              false,
              [&service, kind](HttpRequest r) { return post(service, kind, std::move(r)); }});
  router.add({"GET",
              path + "/{id}",
              "get" + name,
              "The answer, or the state of the job.",
              "",
              "",
              {wait},
              {{200, answer, "finished"}, pending, missing, {410, "Error", "cancelled"}},
              false,
              [&service, kind](HttpRequest r) { return get(service, kind, std::move(r)); }});
  router.add({"DELETE",
              path + "/{id}",
              "cancel" + name,
              "Cancels the job and kills what runs for it alone.",
              "",
              "",
              {},
              {{200, "JobStatus", "cancelled"}, missing, {409, "Error", "it has finished"}},
              false,
              [&service](HttpRequest r) { return cancel(service, std::move(r)); }});
}

}  // namespace

void add_evaluation_routes(Router& router, Service& service) {
  add(router, service, JobKind::kEvaluation);
  add(router, service, JobKind::kModule);
}

}  // namespace kz::keck
