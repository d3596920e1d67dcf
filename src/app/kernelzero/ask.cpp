#include "app/kernelzero/ask.h"

#include <algorithm>

namespace kz::app {

Result<std::unique_ptr<Asking>> Asking::open(const Options& o) {
  std::unique_ptr<Asking> a(new Asking());
  KZ_ASSIGN(a->layout_, find_layout());
  // The model first: a wrong folder is known before a server is started for it.
  KZ_ASSIGN(a->model_, open_model(o.model, o.format, o.device, a->layout_));
  KZ_ASSIGN(a->keck_, open_keck(o.where.server, o.where.workers, a->layout_));
  a->options_.seed = o.seed;
  a->options_.keck.backend = o.where.backend.empty() ? default_backend(a->keck_) : o.where.backend;
  a->options_.keck.check = o.check.empty() ? "strict" : o.check;
  for (auto* s : {&a->options_.coder.sampling, &a->options_.proposer.sampling}) {
    s->temperature = o.temperature;
    s->max_new_tokens = o.max_new_tokens;
  }
  fs::path folder = o.keep;
  if (folder.empty()) {
    KZ_ASSIGN(auto scratch, TempDir::make(fs::temp_directory_path(), "kernelzero-"));
    a->scratch_.emplace(std::move(scratch));
    folder = a->scratch_->path();
  }
  KZ_TRY(make_dirs(folder));
  const fs::path file = folder / "run.db";
  auto store = fs::exists(file) ? evolve::Store::open(file) : evolve::Store::create(file, {{"command", "ask"}});
  if (!store) return tl::unexpected(store.error());
  a->store_ = std::make_unique<evolve::Store>(std::move(*store));
  a->judge_ = std::make_unique<evolve::KeckJudge>(*a->keck_.client, a->options_.keck.in_flight);
  a->book_ = std::make_unique<evolve::Book>(*a->store_, *a->judge_, nullptr);
  return a;
}

evolve::Loop Asking::loop(const std::vector<std::vector<std::string>>& lists) {
  lists_ = lists;
  return evolve::Loop{options_,        lists_,        archive_,      *book_,     *model_.learner,
                      *model_.learner, model_.format, model_.format, on_progress};
}

}  // namespace kz::app
