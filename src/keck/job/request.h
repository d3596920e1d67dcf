// What a client asks of Keck: judge one candidate (keck.md, part 1), or pass one Proposer module through the gate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace kz::keck {

struct Policy {
  bool require_custom_kernel = true;  // compute through torch operators is not accepted (label torch_compute)
  bool allow_libraries = false;       // GPU: cuBLAS and friends
};

struct EvaluationRequest {
  std::string module;            // Python source with Model, get_inputs, get_init_inputs
  std::string candidate;         // Python source with ModelNew
  std::string backend;           // "cpp" | "triton" | "cuda"; empty: cuda where a GPU is, else cpp
  std::string check = "strict";  // "strict" | "kernelbench" | "keck-v0"
  bool timing = true;            // time it when it is right
  std::optional<uint64_t> seed;  // inputs' seed, only to reproduce a verdict; else secret
  Policy policy;
  double deadline_s = 0;  // 0: the server's default; larger values are clamped
  int priority = 0;       // -10 … 10, higher first within a client
  std::string client;     // fair-share key
  bool use_result_cache = true;
};

struct ModuleRequest {
  std::string module;
  std::vector<std::string> apis;  // asked APIs by canonical name ("torch.relu"); empty: any
  std::optional<uint64_t> seed;
};

// Errors ("request") name the field. Unknown fields are refused with the nearest known one.
Result<EvaluationRequest> evaluation_from_json(const Json& body);
Result<ModuleRequest> module_request_from_json(const Json& body);
Json to_json(const EvaluationRequest& request);
Json to_json(const ModuleRequest& request);

}  // namespace kz::keck
