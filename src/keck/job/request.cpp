#include "keck/job/request.h"

#include "keck/job/fields.h"

namespace kz::keck {
namespace {

constexpr size_t kSourceLimit = 1u << 20;
constexpr double kLongestDeadline = 86400;

Policy policy_from_json(const Json& body, Status& status) {
  Fields fields(body, "policy.");
  Policy policy;
  policy.require_custom_kernel = fields.flag("require_custom_kernel", policy.require_custom_kernel);
  policy.allow_libraries = fields.flag("allow_libraries", policy.allow_libraries);
  status = fields.finish();
  return policy;
}

}  // namespace

Result<EvaluationRequest> evaluation_from_json(const Json& body) {
  Fields fields(body);
  EvaluationRequest request;
  request.module = fields.required_text("module", kSourceLimit);
  request.candidate = fields.required_text("candidate", kSourceLimit);
  request.backend = fields.choice("backend", "", {"cpp", "triton", "cuda"});
  request.check = fields.choice("check", "strict", {"strict", "kernelbench", "keck-v0"});
  request.timing = fields.flag("timing", request.timing);
  request.seed = fields.unsigned_integer("seed");
  if (const Json* policy = fields.object("policy")) {
    Status status;
    request.policy = policy_from_json(*policy, status);
    fields.note(status);
  }
  request.deadline_s = fields.number("deadline_s", 0, 0, kLongestDeadline);
  request.priority = static_cast<int>(fields.integer("priority", 0, -10, 10));
  request.client = fields.text("client", "", 128);
  request.use_result_cache = fields.flag("use_result_cache", request.use_result_cache);
  KZ_TRY(fields.finish());
  return request;
}

Result<ModuleRequest> module_request_from_json(const Json& body) {
  Fields fields(body);
  ModuleRequest request;
  request.module = fields.required_text("module", kSourceLimit);
  request.apis = fields.texts("apis", 64, 256);
  request.seed = fields.unsigned_integer("seed");
  KZ_TRY(fields.finish());
  return request;
}

Json to_json(const EvaluationRequest& request) {
  Json json = {{"module", request.module},
               {"candidate", request.candidate},
               {"backend", request.backend},
               {"check", request.check},
               {"timing", request.timing},
               {"policy",
                {{"require_custom_kernel", request.policy.require_custom_kernel},
                 {"allow_libraries", request.policy.allow_libraries}}},
               {"deadline_s", request.deadline_s},
               {"priority", request.priority},
               {"client", request.client},
               {"use_result_cache", request.use_result_cache}};
  if (request.seed) json["seed"] = *request.seed;
  return json;
}

Json to_json(const ModuleRequest& request) {
  Json json = {{"module", request.module}, {"apis", request.apis}};
  if (request.seed) json["seed"] = *request.seed;
  return json;
}

}  // namespace kz::keck
