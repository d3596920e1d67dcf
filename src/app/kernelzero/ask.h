// One model, one Keck, and a book of verdicts for the commands that ask a model once: code, propose, eval.
#pragma once

#include <memory>
#include <string>

#include "app/kernelzero/support.h"
#include "evolve/keck_judge.h"
#include "evolve/rollouts.h"

namespace kz::app {

class Asking {
 public:
  struct Options {
    std::string model, format, device, check;
    Where where;
    double temperature = 1.0;
    int max_new_tokens = 1024;
    uint64_t seed = 0;
    fs::path keep;  // folder of the store; empty: a temporary one
  };
  static Result<std::unique_ptr<Asking>> open(const Options& options);

  evolve::Loop loop(const std::vector<std::vector<std::string>>& lists = {});
  const evolve::EvolveOptions& options() const { return options_; }
  const keck::Client& client() const { return *keck_.client; }
  evolve::PromptFormat format() const { return model_.format; }
  evolve::Book& book() { return *book_; }

  std::function<void(const std::string&, size_t, size_t)> on_progress;

 private:
  Asking() : archive_(1 << 20) {}
  Layout layout_;
  std::optional<TempDir> scratch_;
  evolve::EvolveOptions options_;
  Keck keck_;
  Model model_;
  evolve::Archive archive_;
  std::vector<std::vector<std::string>> lists_;
  std::unique_ptr<evolve::Store> store_;
  std::unique_ptr<evolve::KeckJudge> judge_;
  std::unique_ptr<evolve::Book> book_;
};

}  // namespace kz::app
