// The same trainer on a CUDA device: what it computes is what the CPU computes, and it repeats bit for bit when told
// to.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/random.h"
#include "lm/test_tokenizer.h"
#include "train/trainer.h"

namespace kz::train {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        write_file_atomic(dir_.path() / "config.json",
                          lm::model_config_json(lm::nano_config(lm::kTestVocab, 128, 3, lm::kTestEnd, 256)).dump()));
    ASSERT_TRUE(write_file_atomic(dir_.path() / "tokenizer.json", lm::test_tokenizer().dump()));
    const auto probe = Trainer::open(options("cuda", "fp32"));
    if (!probe) GTEST_SKIP() << probe.error().message;
  }
  TrainerOptions options(const std::string& device, const std::string& dtype) const {
    TrainerOptions o;
    o.model = dir_.path();
    o.device = device;
    o.dtype = dtype;
    o.optimizer.lr = 1e-3;
    o.policy.kl = 0.02;
    return o;
  }
  static std::vector<TrainRow> rows(int n, uint64_t seed) {
    Rng rng(seed);
    std::vector<TrainRow> out;
    for (int i = 0; i < n; ++i) {
      TrainRow r;
      for (uint64_t j = 0; j < 5 + rng.below(60); ++j) r.prompt.push_back(static_cast<int32_t>(rng.below(256)));
      for (uint64_t j = 0; j < 5 + rng.below(100); ++j)
        r.answer.push_back(static_cast<int32_t>(97 + (j * 3 + r.prompt.size()) % 26));
      r.answer.push_back(lm::kTestEnd);
      out.push_back(std::move(r));
    }
    return out;
  }
  static PolicyBatch policy_batch(Trainer& t) {
    PolicyBatch batch{.seed = 3};
    std::vector<lm::Prompt> prompts;
    for (uint64_t i = 0; i < 32; ++i) prompts.push_back({.text = "the in " + std::to_string(i / 8), .seed = i});
    Rng rng(4);
    const auto out = t.generator()->generate(prompts, {.max_new_tokens = 40}).value();
    for (const lm::Completion& c : out)
      batch.sequences.push_back({c.prompt_tokens, c.tokens, c.logprobs, rng.normal()});
    return batch;
  }
  TempDir dir_ = TempDir::make(fs::temp_directory_path(), "kz-gpu-").value();
};

TEST_F(Gpu, StepsAgreeWithTheCpu) {
  const auto cpu = Trainer::open(options("cpu", "fp32")).value(), gpu = Trainer::open(options("cuda", "fp32")).value();
  for (uint64_t i = 0; i < 5; ++i) {
    const auto a = cpu->sft_step(rows(40, i)).value(), b = gpu->sft_step(rows(40, i)).value();
    EXPECT_NEAR(a.loss, b.loss, 1e-4 * a.loss);
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-3 * a.grad_norm);
  }
  const auto la = cpu->logprobs(rows(10, 99)).value(), lb = gpu->logprobs(rows(10, 99)).value();
  for (size_t i = 0; i < la.size(); ++i)
    for (size_t t = 0; t < la[i].size(); ++t) EXPECT_NEAR(la[i][t], lb[i][t], 2e-3);
  const PolicyBatch batch = policy_batch(*cpu);
  const auto a = cpu->policy_step(batch).value(), b = gpu->policy_step(batch).value();
  EXPECT_NEAR(a.loss, b.loss, 1e-3);
  EXPECT_NEAR(a.entropy, b.entropy, 1e-3 * a.entropy);
  EXPECT_NEAR(a.grad_norm, b.grad_norm, 2e-2 * a.grad_norm);
}

TEST_F(Gpu, DecodesAsItTrains) {
  for (const auto& [dtype, bound] : {std::pair{"fp32", 1e-3}, {"bf16", 2e-2}}) {
    const auto gpu = Trainer::open(options("cuda", dtype)).value();
    for (uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(gpu->sft_step(rows(40, i), false));
    const auto s = gpu->policy_step(policy_batch(*gpu)).value();
    EXPECT_LT(s.mismatch, bound) << dtype;
  }
}

TEST_F(Gpu, Bf16Learns) {
  const auto gpu = Trainer::open(options("cuda", "bf16")).value();
  const double before = gpu->evaluate(rows(64, 1000)).value();
  for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(gpu->sft_step(rows(64, i), false));
  EXPECT_LT(gpu->evaluate(rows(64, 1000)).value(), 0.3 * before);
}

TEST_F(Gpu, DeterministicRunsRepeatAndResumeBitForBit) {
  auto o = options("cuda", "bf16");
  o.deterministic = true;
  const auto train = [](Trainer& t, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) {
      ASSERT_TRUE(t.sft_step(rows(64, i)));
      ASSERT_TRUE(t.policy_step(policy_batch(t)));
    }
  };
  const auto bytes = [&](const Trainer& t, const char* name) {
    EXPECT_TRUE(t.export_model(dir_.path() / name));
    return read_file(dir_.path() / name / "model.safetensors").value();
  };
  const auto whole = Trainer::open(o).value(), first = Trainer::open(o).value(), second = Trainer::open(o).value();
  train(*whole, 0, 6);
  train(*first, 0, 3);
  ASSERT_TRUE(first->save(dir_.path() / "cut"));
  ASSERT_TRUE(second->load(dir_.path() / "cut"));
  train(*second, 3, 6);
  EXPECT_EQ(bytes(*whole, "a"), bytes(*second, "b"));
}

}  // namespace
}  // namespace kz::train
