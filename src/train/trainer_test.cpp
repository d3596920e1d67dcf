#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "lm/test_tokenizer.h"
#include "train/sft.h"

namespace kz::train {
namespace {

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    lm::set_threads(1);
    model_ = dir_.path() / "model";
    ASSERT_TRUE(make_dirs(model_));
    ASSERT_TRUE(
        write_file_atomic(model_ / "config.json",
                          lm::model_config_json(lm::nano_config(lm::kTestVocab, 64, 2, lm::kTestEnd, 128)).dump()));
    ASSERT_TRUE(write_file_atomic(model_ / "tokenizer.json", lm::test_tokenizer().dump()));
  }

  TrainerOptions options(double lr = 3e-3) const {
    TrainerOptions o;
    o.model = model_;
    o.seed = 1;
    o.optimizer.lr = lr;
    return o;
  }
  std::unique_ptr<Trainer> open(const TrainerOptions& o) const { return Trainer::open(o).value(); }

  // Rows whose answer repeats the prompt's letters: learnable, and all different.
  static std::vector<TrainRow> rows(const Trainer& t, int n, uint64_t seed = 5) {
    Rng rng(seed);
    std::vector<TrainRow> out;
    for (int i = 0; i < n; ++i) {
      std::string word;
      for (uint64_t j = 0; j < 3 + rng.below(8); ++j) word += static_cast<char>('a' + rng.below(26));
      TrainRow r{t.tokenizer().encode("copy " + word + "<|answer|>"), t.tokenizer().encode(word)};
      r.answer.push_back(lm::kTestEnd);
      out.push_back(std::move(r));
    }
    return out;
  }

  static PolicyBatch sample(Trainer& t, int prompts, int group, uint64_t seed, int length = 12) {
    PolicyBatch batch;
    batch.seed = seed;
    std::vector<lm::Prompt> asked;
    for (int i = 0; i < prompts * group; ++i)
      asked.push_back({.text = "copy " + std::string(1, static_cast<char>('a' + i / group)) + "<|answer|>",
                       .seed = seed * 1000 + static_cast<uint64_t>(i)});
    const auto out = t.generator()->generate(asked, {.max_new_tokens = length}).value();
    double mean = 0;
    for (const lm::Completion& c : out) {
      const double reward = c.tokens[0] < 60 ? 1 : 0;  // an arbitrary reward that a random model meets at times
      mean += reward / static_cast<double>(out.size());
      batch.sequences.push_back({c.prompt_tokens, c.tokens, c.logprobs, reward});
    }
    for (PolicySequence& s : batch.sequences) s.advantage -= mean;
    return batch;
  }

  TempDir dir_ = TempDir::make(fs::temp_directory_path(), "kz-trainer-").value();
  fs::path model_;
};

// A Result's value; its error's message when there is none.
template <typename T>
T good(Result<T> r) {
  if (!r) throw std::runtime_error(r.error().message);
  return std::move(*r);
}

std::string weights_of(const Trainer& t, const fs::path& at) {
  EXPECT_TRUE(t.export_model(at));
  return read_file(at / "model.safetensors").value();
}

TEST_F(TrainerTest, OverfitsEightRowsAndWritesThem) {
  const auto t = open(options());
  const auto data = rows(*t, 8);
  double first = 0, last = 0;
  for (int i = 0; i < 250; ++i) {
    const auto s = good(t->sft_step(data));
    if (i == 0) first = s.loss;
    last = s.loss;
  }
  EXPECT_NEAR(first, std::log(lm::kTestVocab), 1.0);
  EXPECT_LT(last, 0.02);
  EXPECT_NEAR(t->evaluate(data).value(), last, 0.02);
  for (const TrainRow& r : data) {
    const auto out =
        t->generator()
            ->generate({{.text = t->tokenizer().decode(r.prompt, true)}}, {.temperature = 0, .max_new_tokens = 20})
            .value();
    EXPECT_EQ(out[0].tokens, r.answer);
    EXPECT_EQ(out[0].finish, "stop");
  }
}

TEST_F(TrainerTest, MicroBatchesDoNotChangeTheStep) {
  auto small = options();
  small.micro_tokens = 40;
  const auto a = open(options()), b = open(small);
  const auto data = rows(*a, 24);
  for (int i = 0; i < 3; ++i) {
    const auto x = good(a->sft_step(data)), y = good(b->sft_step(data));
    EXPECT_NEAR(x.loss, y.loss, 1e-4);
    EXPECT_NEAR(x.grad_norm, y.grad_norm, 1e-3 * x.grad_norm);
  }
}

TEST_F(TrainerTest, ACutAndResumedRunIsTheUncutRunBitForBit) {
  auto o = options(1e-3);
  o.policy.kl = 0.05;
  o.policy.minibatches = 2;
  o.optimizer.schedule = "cosine";
  o.optimizer.warmup_steps = 3;
  o.optimizer.total_steps = 30;
  const auto train = [](Trainer& t, int from, int to) {
    for (int i = from; i < to; ++i) {
      good(t.sft_step(rows(t, 16, static_cast<uint64_t>(i))));
      good(t.policy_step(sample(t, 3, 4, static_cast<uint64_t>(i))));
    }
  };
  const auto whole = open(o);
  train(*whole, 0, 6);
  {
    const auto first = open(o);
    train(*first, 0, 3);
    ASSERT_TRUE(first->save(dir_.path() / "cut"));
  }
  const auto second = open(o);
  ASSERT_TRUE(second->load(dir_.path() / "cut"));
  EXPECT_EQ(second->step(), 9);
  train(*second, 3, 6);
  EXPECT_EQ(weights_of(*whole, dir_.path() / "a"), weights_of(*second, dir_.path() / "b"));
}

TEST_F(TrainerTest, PolicyGradientRaisesTheRewardAndRecordsTheSamplersLogProbs) {
  const auto t = open(options(1e-3));
  double first = 0, last = 0;
  for (int i = 0; i < 80; ++i) {
    const PolicyBatch batch = sample(*t, 4, 16, static_cast<uint64_t>(i), 2);
    double right = 0;
    for (const auto& s : batch.sequences) right += s.advantage > 0 ? 1 : 0;
    if (i < 3) first += right;
    if (i >= 77) last += right;
    const auto s = good(t->policy_step(batch));
    EXPECT_LT(s.mismatch, 1e-4);
    EXPECT_GT(s.entropy, 0);
    EXPECT_EQ(s.kl_start, 0);
  }
  EXPECT_GT(last, first + 60) << first;  // of 192 each
}

TEST_F(TrainerTest, KlHoldsThePolicyAtItsStart) {
  auto free = options(2e-3), held = options(2e-3);
  free.policy.kl = 1e-9;  // keeps a start, to measure
  held.policy.kl = 5;
  const auto a = open(free), b = open(held);
  StepStats x, y;
  for (int i = 0; i < 20; ++i) {
    const PolicyBatch batch = sample(*a, 4, 8, static_cast<uint64_t>(i));
    x = good(a->policy_step(batch));
    y = good(b->policy_step(batch));
  }
  EXPECT_GT(x.kl_start, 2 * y.kl_start);
}

TEST_F(TrainerTest, ZeroRateAndZeroAdvantageChangeNothing) {
  const auto t = open(options(0));
  const std::string before = weights_of(*t, dir_.path() / "a");
  good(t->sft_step(rows(*t, 4)));
  EXPECT_EQ(weights_of(*t, dir_.path() / "b"), before);
  const auto u = open(options());
  PolicyBatch batch = sample(*u, 2, 4, 1);
  for (auto& s : batch.sequences) s.advantage = 0;
  const auto s = good(u->policy_step(batch));
  EXPECT_EQ(s.grad_norm, 0);
  EXPECT_EQ(weights_of(*u, dir_.path() / "c"), before);
}

TEST_F(TrainerTest, TruncatedImportanceWeightsCapTheSamplersError) {
  auto o = options(0);
  o.policy.importance_cap = 2;
  const auto t = open(o);
  PolicyBatch batch = sample(*t, 2, 4, 1);
  const auto honest = good(t->policy_step(batch));
  for (auto& s : batch.sequences)
    for (float& l : s.old_logprobs) l -= 5;  // the sampler claims e^5 too little: the weight is cut to 2
  const auto capped = good(t->policy_step(batch));
  EXPECT_NEAR(capped.loss, 2 * honest.loss, 1e-4 * std::abs(honest.loss) + 1e-6);
  EXPECT_NEAR(capped.mismatch, 5, 1e-3);
}

TEST_F(TrainerTest, GeneratorUsesTheNewWeights) {
  const auto t = open(options());
  const auto ask = [&] {
    return t->generator()->generate({{.text = "the"}}, {.temperature = 0, .max_new_tokens = 8}).value()[0].logprobs;
  };
  const auto before = ask();
  good(t->sft_step(rows(*t, 8)));
  EXPECT_NE(ask(), before);
}

TEST_F(TrainerTest, SavedFolderIsAModelFolder) {
  const auto t = open(options());
  good(t->sft_step(rows(*t, 8)));
  ASSERT_TRUE(t->save(dir_.path() / "c"));
  ASSERT_TRUE(t->save(dir_.path() / "c"));  // again, over itself
  const auto engine = lm::Engine::open(dir_.path() / "c").value();
  const std::vector<lm::Prompt> ask{{.text = "the float* ", .seed = 3}};
  EXPECT_EQ(engine->generate(ask, {.max_new_tokens = 20}).value()[0].tokens,
            t->generator()->generate(ask, {.max_new_tokens = 20}).value()[0].tokens);
  int entries = 0;
  for ([[maybe_unused]] const auto& e : fs::directory_iterator(dir_.path())) ++entries;
  EXPECT_EQ(entries, 2);  // model and c: no temporary is left
}

TEST_F(TrainerTest, BadInputIsALine) {
  const auto t = open(options());
  const std::string before = weights_of(*t, dir_.path() / "a");
  EXPECT_EQ(t->sft_step({}).error().code, "train");
  EXPECT_EQ(t->sft_step({{{1}, {lm::kTestVocab}}}).error().code, "train");
  EXPECT_EQ(t->sft_step({{{}, {1}}}).error().code, "train");
  EXPECT_EQ(t->sft_step({{std::vector<int32_t>(100, 1), std::vector<int32_t>(100, 1)}}).error().code, "train");
  EXPECT_EQ(t->policy_step({.sequences = {{{1}, {2}, {}, 1}}}).error().code, "train");
  EXPECT_EQ(t->policy_step({.sequences = {{{1}, {2}, {-1}, NAN}}}).error().code, "train");
  EXPECT_EQ(weights_of(*t, dir_.path() / "b"), before);
  auto o = options();
  o.optimizer.schedule = "cubic";
  EXPECT_EQ(Trainer::open(o).error().code, "config");
  o = options();
  o.device = "cuda:77";
  EXPECT_EQ(Trainer::open(o).error().code, "device");
}

TEST_F(TrainerTest, ALoadThatFailsLeavesTheTrainerAsItWas) {
  const auto t = open(options());
  ASSERT_TRUE(t->save(dir_.path() / "good"));
  good(t->sft_step(rows(*t, 8)));
  const std::string before = weights_of(*t, dir_.path() / "a");
  const fs::path file = dir_.path() / "good" / "optimizer.safetensors";
  const std::string bytes = read_file(file).value();
  ASSERT_TRUE(write_file_atomic(file, bytes.substr(0, bytes.size() - 100)));
  const auto r = t->load(dir_.path() / "good");
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message, testing::HasSubstr("optimizer.safetensors"));
  EXPECT_EQ(t->step(), 1);
  EXPECT_EQ(weights_of(*t, dir_.path() / "b"), before);
}

TEST_F(TrainerTest, NotANumberLeavesTheWeightsAlone) {
  const auto t = open(options());
  const std::string before = weights_of(*t, dir_.path() / "a");
  PolicyBatch batch = sample(*t, 1, 4, 1);
  batch.sequences[0].old_logprobs[0] = NAN;
  const auto r = t->policy_step(batch);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, "train");
  EXPECT_EQ(weights_of(*t, dir_.path() / "b"), before);
  EXPECT_EQ(t->step(), 0);
}

TEST_F(TrainerTest, SftDriverStopsAtThePlateauAndAtTheCap) {
  const auto t = open(options());
  const auto data = rows(*t, 16);
  SftOptions o;
  o.batch_tokens = 200;
  o.eval_every = 10;
  o.patience = 2;
  o.quiet = true;
  o.max_steps = 2000;
  o.min_gain = 0.02;
  int calls = 0;
  const auto fixed = [&] { return data; };
  const auto report = run_sft(*t, fixed, rows(*t, 16, 99), o, [&](const SftPoint&) { return ++calls > 0; }).value();
  EXPECT_EQ(report.stopped, "plateau");  // other rows' loss cannot fall for long
  EXPECT_EQ(report.points.size(), static_cast<size_t>(calls));
  EXPECT_LT(report.steps, 2000);
  EXPECT_LT(report.points.back().lr, 0.5 * options().optimizer.lr);
  EXPECT_EQ(t->lr(), options().optimizer.lr);

  o.max_rows = 40;
  EXPECT_EQ(run_sft(*t, fixed, {}, o).value().stopped, "rows");
  int batches = 0;
  const auto ends = [&]() -> std::vector<TrainRow> { return ++batches > 2 ? std::vector<TrainRow>{} : data; };
  o.max_rows = 0;
  const auto last = run_sft(*t, ends, {}, o).value();
  EXPECT_EQ(last.stopped, "end of rows");
  EXPECT_EQ(last.rows, 32);
}

}  // namespace
}  // namespace kz::train
