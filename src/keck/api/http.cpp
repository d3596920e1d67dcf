#include "keck/api/http.h"

#include <optional>

namespace kz::keck {
namespace {

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size() || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) return std::nullopt;
      out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

int status_of(const std::string& code) {
  static const std::map<std::string, int> kStatus = {
      {"request", 400},   {"json", 400}, {"auth", 401},     {"not_found", 404}, {"conflict", 409}, {"gone", 410},
      {"too_large", 413}, {"full", 429}, {"starting", 503}, {"draining", 503},  {"io", 503}};
  const auto it = kStatus.find(code);
  return it == kStatus.end() ? 500 : it->second;
}

}  // namespace

bool parse_target(std::string_view target, HttpRequest& request) {
  if (target.empty() || target[0] != '/') return false;
  const size_t mark = target.find('?');
  auto path = decoded(target.substr(0, mark), false);
  if (!path) return false;
  request.path = std::move(*path);
  request.query.clear();
  if (mark == std::string_view::npos) return true;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    auto name = decoded(pair.substr(0, equals), true);
    auto value = equals == std::string_view::npos ? std::string() : decoded(pair.substr(equals + 1), true);
    if (!name || !value) return false;
    request.query[*name] = *value;
  }
  return true;
}

HttpResponse json_response(int status, const Json& body) {
  HttpResponse response;
  response.status = status;
  response.body = dump_json(body) + "\n";
  return response;
}

HttpResponse error_response(int status, const std::string& code, const std::string& message) {
  HttpResponse response = json_response(status, {{"error", {{"code", code}, {"message", message}}}});
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse error_response(const Error& error) {
  return error_response(status_of(error.code), error.code, error.message);
}

}  // namespace kz::keck
