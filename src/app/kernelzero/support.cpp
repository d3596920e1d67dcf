#include "app/kernelzero/support.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "lm/engine.h"
#include "lm/openai.h"

namespace kz::app {

int complain(const Error& error) {
  std::string line = error.message;
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  std::fprintf(stderr, "kernelzero: %s\n", line.c_str());
  return error.code == "train" || error.code == "report" || error.code == "process" ? kExitNot : kExitUsage;
}

fs::path find_path(const std::string& path, const Layout& layout) {
  if (path.empty() || fs::path(path).is_absolute() || fs::exists(path)) return path;
  const fs::path below = layout.root / path;
  return fs::exists(below) ? below : fs::path(path);
}

Result<Keck> open_keck(const std::string& url, int workers, const Layout& layout, const std::string& token) {
  Keck out;
  keck::ClientOptions options;
  options.token = token;
  if (const char* value = std::getenv("KECK_TOKEN"); value && options.token.empty()) options.token = value;
  if (url.empty()) {
    keck::LocalServerOptions server;
    server.layout = layout;
    server.workers = workers;
    KZ_ASSIGN(auto own, keck::LocalServer::start(server));
    out.own.emplace(std::move(own));
    options.url = out.own->url();
    options.token.clear();
  } else {
    options.url = url;
    // A wrong address is known before the work, not after a minute of retries at each question.
    keck::ClientOptions first = options;
    first.retry_s = 5;
    KZ_ASSIGN(const auto probe, keck::Client::make(first));
    KZ_TRY(probe.get("/healthz").map([](const auto&) {}));
  }
  KZ_ASSIGN(auto client, keck::Client::make(options));
  out.client = client;
  return out;
}

std::string default_backend(const Keck& keck) {
  const auto capabilities = keck.client->get("/v1/capabilities");
  if (!capabilities || !capabilities->is_object()) return "cpp";
  return dump_json(capabilities->value("backends", Json())).find("\"cuda\"") != std::string::npos ? "cuda" : "cpp";
}

Result<Model> open_model(const std::string& model, const std::string& format, const std::string& device,
                         const Layout& layout) {
  Model out;
  if (lm::is_server(model)) {
    KZ_ASSIGN(auto server, lm::open_server({.url = model}));
    out.learner = std::make_shared<FixedModel>(std::move(server));
    out.format = evolve::PromptFormat::kChatMl;
    return out;
  }
  const fs::path folder = find_path(model, layout);
  if (!fs::is_directory(folder)) {
    return fail("file", model + " is no model folder: give a folder with config.json, or http://HOST:PORT");
  }
  KZ_ASSIGN(out.format, evolve::prompt_format(format, folder));
  lm::EngineOptions options;
  options.device = device;
  KZ_ASSIGN(auto engine, lm::Engine::open(folder, options));
  out.learner = std::make_shared<FixedModel>(std::move(engine));
  return out;
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * share);
  return text;
}

}  // namespace kz::app
