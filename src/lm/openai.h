// A Generator that is a server: any OpenAI-compatible one (vLLM, SGLang, llama.cpp, a hosted teacher). It gives text
// only: no tokens and no log-probs, so it can't be trained on, only asked. HTTP stays in the .cpp.
#pragma once

#include <memory>
#include <string>

#include "lm/generator.h"

namespace kz::lm {

struct OpenAiOptions {
  std::string url;         // "http://host:port", with or without "/v1"; "#name" at its end names the model
  std::string model;       // empty: from the URL, else the first that the server lists
  std::string key;         // bearer token; empty: the environment's KERNELZERO_API_KEY, else OPENAI_API_KEY, else none
  int parallel = 8;        // requests in flight
  double timeout_s = 600;  // one completion
  double retry_s = 60;     // refused connections, 429 and 503 are tried again for so long
};

// Asks the server for its models, so a wrong address is known at once. Errors: "url", "connect", "auth", "request",
// "protocol" (no OpenAI-compatible server): one line with the address and what to do.
Result<std::shared_ptr<Generator>> open_server(const OpenAiOptions& options);

// Is this --model argument a server?
bool is_server(const std::string& model);

}  // namespace kz::lm
