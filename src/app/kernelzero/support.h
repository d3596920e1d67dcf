// What several commands need: paths, a server of verdicts, a model that writes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/kernelzero/commands.h"
#include "base/layout.h"
#include "evolve/learner.h"
#include "evolve/prompt.h"
#include "keck/client/local_server.h"

namespace kz::app {

// A path as given, else below the program's own root (configs/demo.toml works from any folder).
fs::path find_path(const std::string& path, const Layout& layout);

// Keck for one command. The token of a server of others comes from KECK_TOKEN: an argument would show in the process
// list.
struct Keck {
  std::optional<keck::LocalServer> own;
  std::optional<keck::Client> client;
};
Result<Keck> open_keck(const std::string& url, int workers, const Layout& layout, const std::string& token = "");
// The backend of a command that was given none: cuda where the server has it, else cpp.
std::string default_backend(const Keck& keck);

// A model that is only asked. It is a Learner so that the loop's own functions serve these commands too.
class FixedModel : public evolve::Learner {
 public:
  explicit FixedModel(std::shared_ptr<lm::Generator> generator) : generator_(std::move(generator)) {}
  lm::Generator& generator() override { return *generator_; }
  Result<evolve::UpdateStats> policy_update(const std::vector<evolve::TrainSequence>&, uint64_t) override {
    return refused();
  }
  Result<evolve::UpdateStats> likelihood_update(const std::vector<evolve::TrainSequence>&, uint64_t) override {
    return refused();
  }
  Status save(const fs::path&) const override { return tl::unexpected(refused().error()); }
  Status load(const fs::path&) override { return tl::unexpected(refused().error()); }

 private:
  static Result<evolve::UpdateStats> refused() { return fail("model", "this model is only asked, not trained"); }
  std::shared_ptr<lm::Generator> generator_;
};

struct Model {
  std::shared_ptr<FixedModel> learner;
  evolve::PromptFormat format = evolve::PromptFormat::kChatMl;
};
// `model` is a folder or a server's URL.
Result<Model> open_model(const std::string& model, const std::string& format, const std::string& device,
                         const Layout& layout);

std::string percent(double share);  // "56.8%", "-" for NaN

}  // namespace kz::app
