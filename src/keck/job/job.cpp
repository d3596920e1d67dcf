#include "keck/job/job.h"

#include <array>
#include <chrono>
#include <cstdio>

#include "base/hash.h"
#include "base/random.h"

namespace kz::keck {
namespace {

constexpr std::array<std::string_view, 2> kKinds = {"evaluation", "module"};
constexpr std::array<std::string_view, 4> kStates = {"queued", "running", "done", "cancelled"};

}  // namespace

std::string_view to_string(JobKind kind) { return kKinds[static_cast<size_t>(kind)]; }
std::string_view to_string(JobState state) { return kStates[static_cast<size_t>(state)]; }

uint64_t size_of(const JobRequest& request) {
  constexpr uint64_t kFixed = 1024;
  if (const auto* evaluation = std::get_if<EvaluationRequest>(&request))
    return evaluation->module.size() + evaluation->candidate.size() + kFixed;
  return std::get<ModuleRequest>(request).module.size() + kFixed;
}

Json to_json(const JobRequest& request) {
  return std::visit([](const auto& r) { return to_json(r); }, request);
}

Json to_json(const Answer& answer) {
  return std::visit([](const auto& a) { return to_json(a); }, answer);
}

Result<JobRequest> job_request_from_json(JobKind kind, const Json& body) {
  if (kind == JobKind::kModule) return module_request_from_json(body).map([](auto&& r) { return JobRequest(r); });
  return evaluation_from_json(body).map([](auto&& r) { return JobRequest(r); });
}

std::string make_job_id() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  char text[33];
  std::snprintf(text, sizeof text, "%012llx%04llx%016llx", static_cast<unsigned long long>(ms & 0xffffffffffff),
                static_cast<unsigned long long>(secret_seed() & 0xffff),
                static_cast<unsigned long long>(secret_seed()));
  return text;
}

std::string work_key(const JobRequest& request, std::string_view environment) {
  Json json = to_json(request);
  for (const char* who : {"client", "priority", "use_result_cache"}) json.erase(who);
  json["kind"] = to_string(kind_of(request));
  json["environment"] = environment;
  return sha256_hex(dump_json(json));
}

}  // namespace kz::keck
