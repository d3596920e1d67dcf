// The cold start: a nano model from nothing (its tokenizer from the corpus, its rows fresh by seed), or a further
// training of a given folder, on rows that the corpus makes or that stand in JSONL files.
#include <cstdio>

#include "app/kernelzero/support.h"
#include "base/config.h"
#include "base/log.h"
#include "corpus/make_corpus.h"
#include "corpus/tokenizer_writer.h"
#include "lm/engine.h"
#include "lm/model_config.h"
#include "train/sft.h"

namespace kz::app {
namespace {

struct SftConfig {
  uint64_t seed = 0;
  std::string out, start, device, dtype, format;
  int threads = 0;
  int64_t hidden = 128, layers = 4, max_positions = 1024;
  corpus::ChainOptions chain;
  std::vector<std::string> files;  // JSONL rows; empty: fresh ones from the corpus
  std::vector<std::string> backends;
  std::vector<double> held_out_buckets;  // of the open part, for the held-out loss alone
  double proposer_share = 0.25;          // rows (API list, module) among all
  int held_out_rows = 400;
  train::OptimizerOptions optimizer;
  train::SftOptions sft;
  std::string stream = "sft/row";
};

std::vector<int> ints(const std::vector<double>& values) { return {values.begin(), values.end()}; }

// What a second stage takes from [second], everything else from the first: the start of the loop has seen much of short
// chains and a little of long ones. Off without second.max_rows.
Result<SftConfig> read_second(Config& c, SftConfig o) {
  o.sft.max_rows = c.get("second.max_rows", 0);
  o.chain.lengths = c.get("second.lengths", o.chain.lengths);
  o.optimizer.lr = c.get("second.lr", o.optimizer.lr);
  o.optimizer.warmup_steps = c.get("second.warmup_steps", o.optimizer.warmup_steps);
  o.sft.batch_tokens = c.get("second.batch_tokens", o.sft.batch_tokens);
  o.sft.max_steps = 0;  // the first stage's
  o.start = o.out;
  o.stream = "sft/second";
  if (o.sft.max_rows > 0 && !o.files.empty())
    c.reject("second.max_rows", "a second stage draws fresh rows: no data.files");
  KZ_TRY(c.finish());
  return o;
}

Result<SftConfig> read(Config& c) {
  SftConfig o;
  o.seed = static_cast<uint64_t>(c.get("seed", 0));
  o.out = c.get("out", "models/nano");
  o.start = c.get("model.start", "");
  o.hidden = c.get("model.hidden", o.hidden);
  o.layers = c.get("model.layers", o.layers);
  o.max_positions = c.get("model.max_positions", o.max_positions);
  o.device = c.get("model.device", "cpu");
  o.dtype = c.get("model.dtype", "auto");
  o.threads = static_cast<int>(c.get("model.threads", 0));
  o.format = c.get("model.format", "auto");
  o.files = c.get("data.files", std::vector<std::string>{});
  o.backends = c.get("data.backends", std::vector<std::string>{"cpp"});
  o.chain.families = c.get("data.families", std::vector<std::string>{});
  o.chain.lengths = c.get("data.lengths", o.chain.lengths);
  o.chain.buckets = ints(c.get("data.buckets", std::vector<double>{2, 3, 4, 5, 6, 7, 8}));
  o.chain.second_style = c.get("data.second_style", o.chain.second_style);
  o.held_out_buckets = c.get("data.held_out_buckets", std::vector<double>{9});
  o.held_out_rows = static_cast<int>(c.get("data.held_out_rows", 400));
  o.proposer_share = c.get("data.proposer_share", o.proposer_share);
  o.optimizer.lr = c.get("train.lr", 3e-3);
  o.optimizer.weight_decay = c.get("train.weight_decay", 0.05);
  o.optimizer.beta2 = c.get("train.beta2", 0.95);
  o.optimizer.warmup_steps = c.get("train.warmup_steps", 200);
  o.sft.batch_tokens = c.get("train.batch_tokens", o.sft.batch_tokens);
  o.sft.max_rows = c.get("train.max_rows", 0);
  o.sft.max_steps = c.get("train.max_steps", 0);
  o.sft.max_seconds = c.get("train.max_minutes", 0.0) * 60;
  o.sft.eval_every = c.get("train.eval_every", o.sft.eval_every);
  o.sft.patience = static_cast<int>(c.get("train.patience", 5));
  o.sft.min_gain = c.get("train.min_gain", o.sft.min_gain);
  o.sft.decay_share = c.get("train.decay_share", o.sft.decay_share);
  o.sft.min_lr_ratio = c.get("train.min_lr_ratio", o.sft.min_lr_ratio);
  if (o.proposer_share < 0 || o.proposer_share > 1) c.reject("data.proposer_share", "must be from 0 to 1");
  if (o.backends.empty()) c.reject("data.backends", "name at least one");
  return o;
}

// The folder that training starts from: as given, or a new one with shape and tokenizer and no weights.
Result<fs::path> start_folder(const SftConfig& o, const Layout& layout) {
  if (!o.start.empty()) return find_path(o.start, layout);
  fs::path folder = fs::path(o.out).string() + ".start";
  KZ_TRY(make_dirs(folder));
  const std::string json = corpus::nano_tokenizer_json();
  KZ_ASSIGN(const auto tokenizer, lm::Tokenizer::parse(json, "nano tokenizer"));
  const auto end = tokenizer->find("<|end|>");
  if (!end) return fail("model", "the corpus' tokenizer has no <|end|>");
  const auto config = lm::nano_config(tokenizer->size(), o.hidden, o.layers, *end, o.max_positions);
  KZ_TRY(write_file_atomic(folder / "tokenizer.json", json));
  KZ_TRY(write_file_atomic(folder / "config.json", dump_json(lm::model_config_json(config), 1) + "\n"));
  return folder;
}

// Rows as token sequences, in the chat form of the model.
class Rows {
 public:
  Rows(const SftConfig& o, const lm::Tokenizer& tokenizer, evolve::PromptFormat format)
      : o_(o), tokenizer_(tokenizer), format_(format) {
    end_ = format == evolve::PromptFormat::kNano ? "<|end|>" : "<|im_end|>";
  }

  train::TrainRow coder(const corpus::Row& r) const {
    return make(evolve::coder_prompt(format_, r.backend, r.module), r.candidate);
  }
  train::TrainRow proposer(const std::vector<std::string>& apis, const std::string& module) const {
    return make(evolve::proposer_prompt(format_, apis), module);
  }

  // Row `index` of a stream: which kind, family and kernel follow from seed and index alone.
  Result<train::TrainRow> fresh(const char* stream, uint64_t index, const corpus::ChainOptions& chain) const {
    Rng rng(derive_seed(o_.seed, stream, index));
    if (rng.uniform() < o_.proposer_share) {
      KZ_ASSIGN(const auto task, corpus::make_task(rng, chain));
      return proposer(task.apis, task.module);
    }
    KZ_ASSIGN(const auto row, corpus::make_row(rng, chain, rng.pick(o_.backends)));
    return coder(row);
  }

 private:
  train::TrainRow make(const lm::Prompt& prompt, const std::string& answer) const {
    const bool fenced = format_ == evolve::PromptFormat::kChatMl;
    train::TrainRow row;
    row.prompt = tokenizer_.encode(prompt.text);
    row.answer = tokenizer_.encode(fenced ? "```python\n" + answer + "\n```" : answer, /*specials=*/false);
    const auto end = tokenizer_.find(end_);
    if (end) row.answer.push_back(*end);
    return row;
  }
  const SftConfig& o_;
  const lm::Tokenizer& tokenizer_;
  evolve::PromptFormat format_;
  std::string end_;
};

// What training reads and what the loss is held out on.
struct Data {
  std::function<std::vector<train::TrainRow>()> next;
  std::vector<train::TrainRow> held_out;
};

Result<Data> from_corpus(const SftConfig& o, const std::shared_ptr<Rows>& rows) {
  KZ_TRY(corpus::check_options(o.chain));
  Data data;
  corpus::ChainOptions held = o.chain;
  held.buckets = ints(o.held_out_buckets);
  for (int i = 0; i < o.held_out_rows; ++i) {
    KZ_ASSIGN(auto row, rows->fresh("sft/held-out", static_cast<uint64_t>(i), held));
    data.held_out.push_back(std::move(row));
  }
  auto index = std::make_shared<uint64_t>(0);
  data.next = [rows, index, chain = o.chain, stream = o.stream] {
    std::vector<train::TrainRow> out;
    while (out.size() < 256) {
      auto row = rows->fresh(stream.c_str(), (*index)++, chain);
      if (!row) {
        log::error(row.error().message);
        return std::vector<train::TrainRow>{};
      }
      out.push_back(std::move(*row));
    }
    return out;
  };
  return data;
}

// Every row twice: as the Coder's and, by its share, as the Proposer's. Passes go on until training stops.
Result<Data> from_files(const SftConfig& o, const Rows& rows) {
  std::vector<train::TrainRow> all;
  Rng rng(derive_seed(o.seed, "sft/files"));
  for (const auto& file : o.files) {
    KZ_ASSIGN(const auto corpus_rows, corpus::read_corpus(file));
    for (const auto& r : corpus_rows) {
      all.push_back(rows.coder(r));
      if (rng.uniform() < o.proposer_share) all.push_back(rows.proposer(r.apis, r.module));
    }
  }
  if (all.size() < 2) return fail("config", "data.files hold no rows");
  rng.shuffle(all);
  Data data;
  const size_t held = std::min(static_cast<size_t>(o.held_out_rows), all.size() / 10 + 1);
  data.held_out.assign(all.end() - static_cast<std::ptrdiff_t>(held), all.end());
  all.resize(all.size() - held);
  auto state = std::make_shared<std::pair<Rng, size_t>>(rng, 0);
  data.next = [all = std::make_shared<std::vector<train::TrainRow>>(std::move(all)), state] {
    std::vector<train::TrainRow> out;
    while (out.size() < 256) {
      if (state->second == all->size()) {
        state->first.shuffle(*all);
        state->second = 0;
      }
      out.push_back((*all)[state->second++]);
    }
    return out;
  };
  return data;
}

// Trains from start_folder(o) and leaves the model in o.out.
Result<Json> run_stage(const SftConfig& o, const Layout& layout, bool quiet) {
  KZ_ASSIGN(const fs::path start, start_folder(o, layout));
  KZ_ASSIGN(const auto format, evolve::prompt_format(o.format, start));
  train::TrainerOptions t;
  t.model = start;
  t.device = o.device;
  t.dtype = o.dtype;
  t.seed = derive_seed(o.seed, "sft/weights");
  t.optimizer = o.optimizer;
  KZ_ASSIGN(const auto trainer, train::Trainer::open(t));
  auto rows = std::make_shared<Rows>(o, trainer->tokenizer(), format);
  auto data = o.files.empty() ? from_corpus(o, rows) : from_files(o, *rows);
  if (!data) return tl::unexpected(data.error());
  train::SftOptions options = o.sft;
  options.quiet = quiet;
  Json points = Json::array();
  KZ_ASSIGN(const auto report,
            train::run_sft(*trainer, data->next, data->held_out, options, [&](const train::SftPoint& p) {
              points.push_back({{"step", p.step},
                                {"rows", p.rows},
                                {"tokens", p.tokens},
                                {"seconds", p.seconds},
                                {"loss", json_number(p.loss)},
                                {"held_out", json_number(p.held_out)},
                                {"lr", p.lr}});
              return true;
            }));
  KZ_TRY(trainer->export_model(o.out));
  return Json{{"out", o.out},
              {"parameters", trainer->config().parameters()},
              {"steps", report.steps},
              {"rows", report.rows},
              {"tokens", report.tokens},
              {"seconds", report.seconds},
              {"tokens_per_second", report.tokens_per_second},
              {"held_out", json_number(report.held_out)},
              {"stopped", report.stopped},
              {"points", points}};
}

Result<Json> run(const SftCommand& command) {
  KZ_ASSIGN(const Layout layout, find_layout());
  KZ_ASSIGN(auto config, Config::load(find_path(command.config, layout), command.overrides));
  KZ_ASSIGN(const SftConfig first, read(config));
  KZ_ASSIGN(const SftConfig second, read_second(config, first));
  lm::set_threads(first.threads);
  KZ_ASSIGN(Json out, run_stage(first, layout, command.json));
  if (second.sft.max_rows > 0) {
    KZ_ASSIGN(out["second"], run_stage(second, layout, command.json));
  }
  KZ_TRY(write_file_atomic(fs::path(first.out) / "training.json", dump_json(out, 1) + "\n"));
  KZ_TRY(write_file_atomic(fs::path(first.out) / "training.toml", config.resolved()));
  return out;
}

}  // namespace

int sft(const SftCommand& command) {
  const auto done = run(command);
  if (!done) return complain(done.error());
  if (command.json) {
    std::printf("%s\n", dump_json(*done, 1).c_str());
    return kExitDone;
  }
  const auto say = [](const Json& stage) {
    std::printf("%s: held-out loss %.4f after %lld rows, %.0f s (%s)\n", stage.value("out", "").c_str(),
                number_from_json(stage["held_out"]), static_cast<long long>(stage.value("rows", int64_t{0})),
                stage.value("seconds", 0.0), stage.value("stopped", "").c_str());
  };
  say(*done);
  if (done->contains("second")) say((*done)["second"]);
  return kExitDone;
}

}  // namespace kz::app
