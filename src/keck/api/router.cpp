#include "keck/api/router.h"

#include "base/text.h"
#include "keck/api/schemas.h"

namespace kz::keck {
namespace {

// Fills `parameters` when the path fits the pattern; a {name} stands for one non-empty segment.
bool fits(const std::string& pattern, const std::string& path, std::map<std::string, std::string>& parameters) {
  const auto want = split(pattern, '/'), have = split(path, '/');
  if (want.size() != have.size()) return false;
  std::map<std::string, std::string> found;
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i].size() > 2 && want[i].front() == '{') {
      if (have[i].empty()) return false;
      found[want[i].substr(1, want[i].size() - 2)] = have[i];
    } else if (want[i] != have[i]) {
      return false;
    }
  }
  parameters = std::move(found);
  return true;
}

// Takes the same time wherever the first difference is.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ (i < b.size() ? b[i] : 0));
  return difference == 0;
}

Json reference(const std::string& schema) { return {{"$ref", "#/components/schemas/" + schema}}; }

Json describe(const Route& route) {
  Json parameters = Json::array();
  for (const auto& part : split(route.pattern, '/'))
    if (part.size() > 2 && part.front() == '{')
      parameters.push_back({{"name", part.substr(1, part.size() - 2)},
                            {"in", "path"},
                            {"required", true},
                            {"schema", {{"type", "string"}}}});
  for (const auto& p : route.query)
    parameters.push_back(
        {{"name", p.name}, {"in", "query"}, {"description", p.description}, {"schema", {{"type", p.type}}}});
  Json operation = {{"operationId", route.operation_id}, {"summary", route.summary}, {"responses", Json::object()}};
  if (!parameters.empty()) operation["parameters"] = parameters;
  if (!route.request_schema.empty())
    operation["requestBody"] = {{"required", true},
                                {"content", {{route.request_type, {{"schema", reference(route.request_schema)}}}}}};
  auto answers = route.answers;
  if (!route.open) answers.push_back({401, "Error", "the bearer token is missing or wrong"});
  for (const auto& answer : answers) {
    Json response = {{"description", answer.description}};
    const Json schema = answer.schema.empty() ? Json{{"type", "string"}} : reference(answer.schema);
    response["content"] = {{answer.schema.empty() ? "text/plain" : "application/json", {{"schema", schema}}}};
    operation["responses"][std::to_string(answer.status)] = response;
  }
  if (route.open) operation["security"] = Json::array();
  return operation;
}

}  // namespace

void Router::add(Route route) { routes_.push_back(std::move(route)); }

bool Router::authorised(const HttpRequest& request) const {
  if (token_.empty()) return true;
  const auto header = request.headers.find("authorization");
  return header != request.headers.end() && same_secret(header->second, "Bearer " + token_);
}

Task<HttpResponse> Router::dispatch(HttpRequest request, std::string* route_name) const {
  std::string allow;
  for (const auto& route : routes_) {
    if (!fits(route.pattern, request.path, request.parameters)) continue;
    if (route.method != request.method) {
      allow += (allow.empty() ? "" : ", ") + route.method;
      continue;
    }
    if (route_name) *route_name = route.pattern;
    if (!route.open && !authorised(request))
      co_return error_response(401, "auth", "this server wants its token: send \"Authorization: Bearer TOKEN\"");
    co_return co_await route.handler(std::move(request));
  }
  if (!allow.empty()) {
    HttpResponse response = error_response(405, "method", request.method + " is not allowed here, only " + allow);
    response.headers.emplace_back("Allow", allow);
    co_return response;
  }
  co_return error_response(404, "not_found", "no such path; /openapi.json lists what there is");
}

Json Router::openapi() const {
  Json paths = Json::object();
  for (const auto& route : routes_) {
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(c | 0x20);
    paths[route.pattern][method] = describe(route);
  }
  return {{"openapi", "3.0.3"},
          {"info",
           {{"title", "Keck"},
            {"version", "1"},
            {"description", "Says what is true about a kernel: correctness, speed, policy."}}},
          {"paths", paths},
          {"components",
           {{"schemas", schemas()}, {"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
          {"security", Json::array({{{"token", Json::array()}}})}};
}

}  // namespace kz::keck
