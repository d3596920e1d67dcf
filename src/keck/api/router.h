// The one route table: it dispatches requests and describes itself as OpenAPI.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "keck/api/http.h"
#include "keck/api/task.h"

namespace kz::keck {

using Handler = std::function<Task<HttpResponse>(HttpRequest)>;

struct RouteParameter {
  std::string name;
  const char* type = "string";  // JSON schema type
  std::string description;
};

struct RouteAnswer {
  int status = 200;
  std::string schema;  // name of a schema of schemas.h; empty: text
  std::string description;
};

struct Route {
  std::string method;
  std::string pattern;  // "/v1/evaluations/{id}"
  std::string operation_id;
  std::string summary;
  std::string request_schema;  // empty: no body
  std::string request_type = "application/json";
  std::vector<RouteParameter> query;
  std::vector<RouteAnswer> answers;
  bool open = false;  // answers without the token
  Handler handler;
};

class Router {
 public:
  explicit Router(std::string token) : token_(std::move(token)) {}

  void add(Route route);
  // Finds the route and runs its handler; 401, 404 and 405 (with Allow) are answered here. `route_name` (may be null)
  // gets the pattern, for metrics, or "" where there is none.
  Task<HttpResponse> dispatch(HttpRequest request, std::string* route_name) const;
  Json openapi() const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  bool authorised(const HttpRequest& request) const;

  std::string token_;
  std::vector<Route> routes_;
};

}  // namespace kz::keck
