// An HTTP request and response as handlers see them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace kz::keck {

struct HttpRequest {
  std::string method;                             // "GET"
  std::string path;                               // decoded, without the query
  std::map<std::string, std::string> query;       // decoded; the last of a repeated name counts
  std::map<std::string, std::string> headers;     // names in lower case
  std::map<std::string, std::string> parameters;  // of the route's pattern, filled by the router
  std::string body;
  std::string peer;  // address of the other side, without the port
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// Splits "/a/b?x=1" into path and query. False when the target is no origin-form or a %-escape is broken.
bool parse_target(std::string_view target, HttpRequest& request);

HttpResponse json_response(int status, const Json& body);
// {"error": {"code", "message"}}; 429 and 503 carry Retry-After.
HttpResponse error_response(int status, const std::string& code, const std::string& message);
HttpResponse error_response(const Error& error);  // the status that belongs to the code of an error of ours

}  // namespace kz::keck
