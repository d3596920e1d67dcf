// What the handlers share: reading a request, and answering with the state of a job.
#pragma once

#include "keck/api/service.h"

namespace kz::keck {

// "POST /v1/evaluations", for error messages.
std::string where(const HttpRequest& request);
// The number of a query parameter, or the fallback; error "request" names the parameter and its range.
Result<double> query_number(const HttpRequest& request, const char* name, double fallback, double low, double high);
// ?wait=S, clamped to the server's longest.
Result<double> query_wait(const HttpRequest& request, const Service& service);
// Whom the fair share is for when the request does not say: the address.
std::string client_of(const HttpRequest& request, const std::string& given);

// Accepts one job and answers 202 {id, state}, or 200 with the answer when it is there within ?wait.
Task<HttpResponse> accept_one(Service& service, HttpRequest request, Submission submission);
// 200 with the answer, 202 {id, state} when it is not there after wait_s, 404, 410 when cancelled.
Task<HttpResponse> answer_when_done(Service& service, std::string id, double wait_s);

}  // namespace kz::keck
