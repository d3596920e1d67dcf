#include "keck/api/schemas.h"

namespace kz::keck {
namespace {

Json typed(const char* type, const char* description = "") {
  Json schema = {{"type", type}};
  if (*description) schema["description"] = description;
  return schema;
}

Json words(std::initializer_list<const char*> allowed, const char* description = "") {
  Json schema = typed("string", description);
  for (const char* word : allowed) schema["enum"].push_back(word);
  return schema;
}

Json list(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }
Json named(const char* schema) { return {{"$ref", std::string("#/components/schemas/") + schema}}; }

Json nullable(Json schema) {
  if (schema.contains("$ref")) return {{"allOf", Json::array({std::move(schema)})}, {"nullable", true}};
  schema["nullable"] = true;
  return schema;
}

// A number, or one of the strings "nan", "inf", "-inf".
Json real(const char* description = "") {
  Json schema = {{"oneOf", Json::array({typed("number"), words({"nan", "inf", "-inf"})})}};
  if (*description) schema["description"] = description;
  return schema;
}

Json object(std::initializer_list<std::pair<const char*, Json>> properties,
            std::initializer_list<const char*> required = {}) {
  Json schema = {{"type", "object"}, {"properties", Json::object()}};
  for (const auto& [name, property] : properties) schema["properties"][name] = property;
  for (const char* name : required) schema["required"].push_back(name);
  return schema;
}

Json closed(Json schema) {
  schema["additionalProperties"] = false;
  return schema;
}

Json seed() {
  return {{"type", "integer"}, {"minimum", 0}, {"description", "Of the inputs, to reproduce a verdict; else secret."}};
}

Json source(const char* description) {
  return {{"type", "string"}, {"minLength", 1}, {"maxLength", 1 << 20}, {"description", description}};
}

Json evaluation_request() {
  return closed(object(
      {{"module", source("Python source with Model, get_inputs and get_init_inputs.")},
       {"candidate", source("Python source with ModelNew.")},
       {"backend", words({"", "cpp", "triton", "cuda"}, "Empty: cuda where a GPU is, else cpp.")},
       {"check", words({"strict", "kernelbench", "keck-v0"})},
       {"timing", typed("boolean", "Time it when it is right.")},
       {"seed", seed()},
       {"policy", closed(object({{"require_custom_kernel", typed("boolean")}, {"allow_libraries", typed("boolean")}}))},
       {"deadline_s", {{"type", "number"}, {"minimum", 0}, {"description", "0: the server's; clamped by it."}}},
       {"priority", {{"type", "integer"}, {"minimum", -10}, {"maximum", 10}}},
       {"client", {{"type", "string"}, {"maxLength", 128}, {"description", "Whom the fair share is for."}}},
       {"use_result_cache", typed("boolean")}},
      {"module", "candidate"}));
}

Json spread() { return object({{"median", real()}, {"iqr", real()}, {"min", real()}, {"n", typed("integer")}}); }

Json verdict() {
  const Json mismatch =
      object({{"output", typed("integer")}, {"index", list(typed("integer"))}, {"expected", real()}, {"got", real()}});
  const Json correctness = object({{"trials", typed("integer")},
                                   {"passed", typed("integer")},
                                   {"max_abs_error", real()},
                                   {"max_rel_error", real()},
                                   {"tolerance", real()},
                                   {"wrong_share", real()},
                                   {"check", typed("string")},
                                   {"first_mismatch", nullable(mismatch)}});
  const Json timing = object({{"candidate_ms", spread()},
                              {"eager_ms", spread()},
                              {"latency", nullable(typed("object"))},
                              {"events", nullable(typed("object"))},
                              {"compile_ms", nullable(typed("number"))},
                              {"speedup", real("eager / candidate")},
                              {"ci95", list(real())},
                              {"decision", words({"", "faster", "slower", "same", "ambiguous"})},
                              {"resolution_us", real()},
                              {"first_call_ms", real()},
                              {"sm_clock_mhz", nullable(typed("number"))},
                              {"method", typed("string")}});
  const Json build = object({{"seconds", real()},
                             {"cpu_seconds", real()},
                             {"cache", words({"", "hit", "miss", "joined"})},
                             {"registers", nullable(typed("integer"))},
                             {"spills", nullable(typed("integer"))},
                             {"log", typed("string")}});
  return object({{"id", typed("string")},
                 {"outcome", words({"pass", "fail", "unscored"})},
                 {"stage", words({"", "format", "build", "load", "run", "compare", "policy", "task", "host"})},
                 {"reason", typed("string", "A stable code.")},
                 {"message", typed("string", "One line for a person.")},
                 {"headers", words({"", "slim", "full"})},
                 {"correctness", nullable(correctness)},
                 {"timing", nullable(timing)},
                 {"kernels", nullable(typed("object"))},
                 {"policy", object({{"accepted", typed("boolean")}, {"labels", list(typed("string"))}})},
                 {"build", build},
                 {"stages_ms", {{"type", "object"}, {"additionalProperties", real()}}},
                 {"backend", typed("string")},
                 {"device", object({{"name", typed("string")}})},
                 {"sandbox", typed("string")},
                 {"seed", typed("integer")},
                 {"log_tail", typed("string")},
                 {"from_cache", typed("boolean")},
                 {"cpu_seconds", real()}},
                {"id", "outcome", "stage", "reason", "policy"});
}

Json module_report() {
  return object({{"id", typed("string")},
                 {"outcome", words({"pass", "fail", "unscored"})},
                 {"stage", typed("string")},
                 {"reason", typed("string")},
                 {"message", typed("string")},
                 {"apis", list(typed("string"))},
                 {"operators", list(typed("string"))},
                 {"canonical_source", typed("string")},
                 {"canonical_hash", typed("string")},
                 {"run_ms", real()},
                 {"bytes", typed("integer")}},
                {"id", "outcome", "stage", "reason"});
}

Json batch() {
  const Json item = object({{"id", typed("string")},
                            {"key", typed("string")},
                            {"kind", words({"evaluation", "module"})},
                            {"state", words({"done", "cancelled"})},
                            {"sequence", typed("integer", "Order of finishing: the cursor `after`.")},
                            {"verdict", named("Verdict")},
                            {"report", named("ModuleReport")}});
  return object({{"id", typed("string")},
                 {"total", typed("integer")},
                 {"finished", typed("integer")},
                 {"cancelled", typed("integer")},
                 {"next", typed("integer", "Give it as `after` in the next request.")},
                 {"more", typed("boolean", "More items have finished than this reply holds.")},
                 {"items", list(item)}});
}

}  // namespace

Json schemas() {
  const Json state = words({"queued", "running", "done", "cancelled"});
  const Json module_request = closed(object({{"module", source("Python source with Model and get_inputs.")},
                                             {"apis", list(typed("string"))},
                                             {"seed", seed()}},
                                            {"module"}));
  Json row = evaluation_request();
  row["properties"]["apis"] = list(typed("string"));
  row["properties"]["key"] = typed("string", "The client's name for the row; a row sent twice under it is taken once.");
  row["properties"]["kind"] = words({"evaluation", "module"});
  row["required"] = {"module"};
  row["description"] = "One line of JSON: an EvaluationRequest, or with kind \"module\" a ModuleRequest.";
  const Json device = object({{"kind", words({"cpu", "gpu"})}, {"name", typed("string")}, {"state", typed("string")}});
  return {{"EvaluationRequest", evaluation_request()},
          {"ModuleRequest", module_request},
          {"Verdict", verdict()},
          {"ModuleReport", module_report()},
          {"JobStatus", object({{"id", typed("string")}, {"state", state}}, {"id", "state"})},
          {"BatchRow", row},
          {"BatchAccepted", object({{"id", typed("string")}, {"ids", list(typed("string"))}}, {"id", "ids"})},
          {"Batch", batch()},
          {"BatchCancelled", object({{"id", typed("string")}, {"cancelled", typed("integer")}})},
          {"Capabilities", typed("object", "Backends, sandbox, versions, limits.")},
          {"Devices", object({{"devices", list(device)}})},
          {"Health", object({{"status", typed("string")}, {"detail", typed("string")}})},
          {"OpenApi", typed("object")},
          {"Error", object({{"error", object({{"code", typed("string")}, {"message", typed("string")}})}})}};
}

}  // namespace kz::keck
