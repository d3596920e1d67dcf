// What operates the server: health, metrics, capabilities, devices, and the description of the API itself.
#include <fstream>
#include <thread>

#include "keck/api/handlers.h"

namespace kz::keck {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "cpu";
}

std::string_view word(Service::State state) {
  switch (state) {
    case Service::State::kStarting:
      return "starting";
    case Service::State::kReady:
      return "ready";
    case Service::State::kFailed:
      return "failed";
    case Service::State::kDraining:
      return "draining";
  }
  return "";
}

Json devices(const Service& service) {
  const Json capabilities = service.capabilities();
  if (capabilities.contains("devices")) return {{"devices", capabilities["devices"]}};
  return {{"devices",
           {{{"kind", "cpu"},
             {"name", cpu_name()},
             {"cores", std::thread::hardware_concurrency()},
             {"state", "healthy"}}}}};
}

// A route whose handler needs no waiting.
template <typename Make>
Handler at_once(Make make) {
  return [make](HttpRequest) -> Task<HttpResponse> { co_return make(); };
}

HttpResponse text(std::string body, std::string type) {
  HttpResponse response;
  response.content_type = std::move(type);
  response.body = std::move(body);
  return response;
}

}  // namespace

void add_operation_routes(Router& router, Service& service) {
  router.add({"GET",
              "/v1/capabilities",
              "getCapabilities",
              "Backends, sandbox, versions and limits of this server.",
              "",
              "",
              {},
              {{200, "Capabilities", "what it can do"}, {503, "Error", "not ready yet"}},
              false,
              at_once([&service] {
                if (service.state() == Service::State::kStarting)
                  return error_response(503, "starting", "the server is starting: try again in a moment");
                Json capabilities = service.capabilities();
                capabilities["limits"] = {{"max_wait_s", service.options().max_wait_s}};
                return json_response(200, capabilities);
              })});
  router.add({"GET",
              "/v1/devices",
              "getDevices",
              "The devices that kernels run on.",
              "",
              "",
              {},
              {{200, "Devices", "one entry a device"}},
              false,
              at_once([&service] { return json_response(200, devices(service)); })});
  router.add({"GET",
              "/metrics",
              "getMetrics",
              "Prometheus metrics.",
              "",
              "",
              {},
              {{200, "", "exposition format"}},
              false,
              at_once([&service] {
                return text(service.metrics().text(service.jobs().statistics(), service.evaluator_statistics(),
                                                   service.waiting().size()),
                            "text/plain; version=0.0.4; charset=utf-8");
              })});
  router.add(
      {"GET", "/healthz", "getHealth", "The daemon answers.", "", "", {}, {{200, "Health", "alive"}}, true, at_once([] {
         return json_response(200, {{"status", "ok"}});
       })});
  router.add({"GET",
              "/readyz",
              "getReadiness",
              "Ready to take jobs: zygote, judge and build broker are up.",
              "",
              "",
              {},
              {{200, "Health", "ready"}, {503, "Error", "not ready"}},
              true,
              at_once([&service] {
                const auto state = service.state();
                if (state == Service::State::kReady) return json_response(200, {{"status", "ready"}});
                return error_response(503, std::string(word(state)), "the server is " + std::string(word(state)));
              })});
  router.add({"GET",
              "/openapi.json",
              "getOpenApi",
              "This description.",
              "",
              "",
              {},
              {{200, "OpenApi", "OpenAPI 3.0"}},
              true,
              at_once([&router] { return json_response(200, router.openapi()); })});
}

}  // namespace kz::keck
