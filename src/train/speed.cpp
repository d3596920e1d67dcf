// lm_speed: how fast this machine samples from and trains a random nano model. Prints one JSON line.
// lm_speed [--device D] [--hidden N] [--layers N] [--vocab N] [--batch N] [--group N] [--prompt N] [--new N] [--threads
// N] [--steps N]
//          [--tokens N] [--dtype T]
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>

#include "base/clock.h"
#include "base/random.h"
#include "lm/test_tokenizer.h"
#include "train/trainer.h"

namespace kz::train {
namespace {

// Wall time, and processor time, which says more on a machine that others use too.
struct Rates {
  Stopwatch wall;
  clock_t cpu = clock();
  double per_second = 0, per_cpu_second = 0;
  void done(double tokens) {
    per_second = tokens / wall.seconds();
    per_cpu_second = tokens * CLOCKS_PER_SEC / static_cast<double>(clock() - cpu);
  }
};

Status run(std::map<std::string, std::string> args) {
  const auto number = [&](const char* key, int fallback) {
    return args.contains(key) ? std::atoi(args[key].c_str()) : fallback;
  };
  const int batch = number("--batch", 128), group = number("--group", 8), prompt = number("--prompt", 60),
            fresh = number("--new", 100);
  lm::set_threads(number("--threads", 0));
  KZ_ASSIGN(const TempDir dir, TempDir::make(fs::temp_directory_path(), "lm-speed-"));
  lm::ModelConfig config =
      lm::nano_config(number("--vocab", 1024), number("--hidden", 128), number("--layers", 4), lm::kTestEnd, 1024);
  KZ_TRY(write_file_atomic(dir.path() / "config.json", lm::model_config_json(config).dump()));
  KZ_TRY(write_file_atomic(dir.path() / "tokenizer.json", lm::test_tokenizer().dump()));
  TrainerOptions options;
  options.model = dir.path();
  options.device = args.contains("--device") ? args["--device"] : "cpu";
  options.dtype = args.contains("--dtype") ? args["--dtype"] : "auto";
  options.optimizer.lr = 1e-4;
  KZ_ASSIGN(const auto trainer, Trainer::open(options));

  // A byte is a token in this tokenizer, so prompts are exactly as long as asked. The end token is one of a thousand:
  // most completions run to the length.
  std::vector<lm::Prompt> prompts;
  for (int i = 0; i < batch; ++i) {
    std::string text = std::to_string(i / group) + ":";
    while (static_cast<int>(text.size()) < prompt) text += "x";
    prompts.push_back({.text = text, .seed = static_cast<uint64_t>(i)});
  }
  Rates decode, sft, policy;
  std::vector<lm::Completion> out;
  for (int round = 0; round < 2; ++round) {  // the first warms up
    decode = {};
    KZ_ASSIGN(out, trainer->generator()->generate(prompts, {.max_new_tokens = fresh}));
    double tokens = 0;
    for (const lm::Completion& c : out) tokens += static_cast<double>(c.tokens.size());
    decode.done(tokens);
  }

  Rng rng(1);
  const int tokens = number("--tokens", 8192), steps = number("--steps", 4);
  std::vector<TrainRow> rows;
  for (int have = 0; have < tokens; have += prompt + fresh) {
    TrainRow r;
    for (int i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<int32_t>(rng.below(256)));
    for (int i = 0; i < fresh; ++i) r.answer.push_back(static_cast<int32_t>(rng.below(256)));
    rows.push_back(std::move(r));
  }
  for (int round = 0; round < 2; ++round) {
    sft = {};
    int64_t seen = 0;
    for (int i = 0; i < steps; ++i) {
      KZ_ASSIGN(const StepStats s, trainer->sft_step(rows, i + 1 == steps));
      seen += s.tokens;
    }
    sft.done(static_cast<double>(seen));
  }
  PolicyBatch pg;
  for (const lm::Completion& c : out) pg.sequences.push_back({c.prompt_tokens, c.tokens, c.logprobs, rng.normal()});
  for (int round = 0; round < 2; ++round) {
    policy = {};
    KZ_ASSIGN(const StepStats s, trainer->policy_step(pg));
    policy.done(static_cast<double>(s.tokens));
  }
  std::printf("{\"parameters\": %lld", static_cast<long long>(config.parameters()));
  for (const auto& [name, r] : {std::pair{"decode", decode}, {"sft", sft}, {"policy", policy}})
    std::printf(", \"%s_tok_s\": %.0f, \"%s_tok_cpu_s\": %.0f", name, r.per_second, name, r.per_cpu_second);
  std::printf("}\n");
  return {};
}

}  // namespace
}  // namespace kz::train

int main(int argc, char** argv) {
  std::map<std::string, std::string> args;
  for (int i = 1; i + 1 < argc; i += 2) args[argv[i]] = argv[i + 1];
  const auto status = kz::train::run(args);
  if (status) return 0;
  std::fprintf(stderr, "lm_speed: %s\n", status.error().message.c_str());
  return 2;
}
