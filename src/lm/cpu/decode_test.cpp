#include "lm/cpu/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/random.h"
#include "lm/test_tokenizer.h"

namespace kz::lm {
namespace {

// Random weights without torch: the decoder needs only pointers.
struct Weights {
  ModelConfig config;
  std::vector<std::vector<float>> storage;
  cpu::RawWeights raw;
  explicit Weights(uint64_t seed, ModelConfig c = nano_config(kTestVocab, 64, 2, kTestEnd, 256))
      : config(std::move(c)) {
    Rng rng(seed);
    const auto make = [&](int64_t n, double scale, double mean = 0) {
      std::vector<float> v(static_cast<size_t>(n));
      for (float& x : v) x = static_cast<float>(mean + scale * rng.normal());
      storage.push_back(std::move(v));
      return storage.back().data();
    };
    const int64_t d = config.hidden, q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim,
                  f = config.intermediate;
    raw.embedding = make(config.vocab * d, 0.1);
    raw.norm = make(d, 0.1, 1);
    for (int64_t i = 0; i < config.layers; ++i)
      raw.layers.push_back({make(d, 0.1, 1), make((q + 2 * kv) * d, 0.15), make(q + 2 * kv, 0.1), make(d * q, 0.15),
                            make(d, 0.1, 1), make(2 * f * d, 0.15), make(d * f, 0.15)});
  }
  cpu::PackedModel packed() const {
    return {config, raw, std::make_shared<RopeTable>(config.max_positions, config.head_dim, config.rope_theta)};
  }
};

std::vector<int32_t> prompt_of(int length, int salt) {
  std::vector<int32_t> out;
  for (int i = 0; i < length; ++i) out.push_back((i * 37 + salt * 11) % 256);
  return out;
}

std::map<size_t, cpu::Finished> run(const cpu::PackedModel& model, std::vector<cpu::Request> requests,
                                    cpu::DecodeOptions options) {
  std::map<size_t, cpu::Finished> out;
  cpu::decode(model, std::move(requests), options, [&](cpu::Finished f) {
    const size_t id = f.id;
    EXPECT_TRUE(out.emplace(id, std::move(f)).second) << "delivered twice";
    return true;
  });
  return out;
}

// 40 requests of different lengths, 3 completions each.
std::vector<cpu::Request> many() {
  std::vector<cpu::Request> out;
  size_t id = 0;
  for (int i = 0; i < 40; ++i) {
    cpu::Request r{prompt_of(1 + i * 3 % 70, i), {}, {}};
    for (int s = 0; s < 3; ++s) {
      r.seeds.push_back(static_cast<uint64_t>(i * 10 + s));
      r.ids.push_back(id++);
    }
    out.push_back(r);
  }
  return out;
}

TEST(CpuDecode, ACompletionIsTheSameBitsAloneAndInAnyBatch) {
  const Weights weights(1);
  const cpu::PackedModel model = weights.packed();
  const Sampling sampling{.temperature = 1.0, .max_new_tokens = 60};
  const auto together = run(model, many(), {.sampling = sampling, .threads = 2, .slots = 64});
  ASSERT_EQ(together.size(), 120U);
  std::set<std::vector<int32_t>> distinct;
  for (const auto& [id, f] : together) distinct.insert(f.tokens);
  EXPECT_GT(distinct.size(), 100U);  // or the comparison below would say little
  for (const auto& [threads, slots] : {std::pair{1, 64}, {1, 7}, {3, 5}, {2, 1}}) {
    auto requests = many();
    std::reverse(requests.begin(), requests.end());
    const auto other = run(model, requests, {.sampling = sampling, .threads = threads, .slots = slots});
    for (const auto& [id, f] : together) {
      EXPECT_EQ(f.tokens, other.at(id).tokens);
      EXPECT_EQ(f.logprobs, other.at(id).logprobs);
    }
  }
  for (const cpu::Request& r : many()) {  // each completion alone
    for (size_t i = 0; i < r.ids.size(); i += 2) {
      const auto alone = run(model, {{r.prompt, {r.seeds[i]}, {r.ids[i]}}}, {.sampling = sampling});
      EXPECT_EQ(alone.at(r.ids[i]).tokens, together.at(r.ids[i]).tokens);
      EXPECT_EQ(alone.at(r.ids[i]).logprobs, together.at(r.ids[i]).logprobs);
    }
  }
}

TEST(CpuDecode, AnUntiedHeadIsUsed) {
  Weights weights(2);
  const std::vector<float> zeros(static_cast<size_t>(weights.config.vocab * weights.config.hidden), 0.0F);
  weights.raw.head = zeros.data();
  const auto out =
      run(weights.packed(), {{prompt_of(5, 1), {1}, {0}}}, {.sampling = {.temperature = 1.0, .max_new_tokens = 20}});
  for (const float l : out.at(0).logprobs)
    EXPECT_NEAR(l, -std::log(static_cast<double>(kTestVocab)), 1e-5);  // all tokens alike
}

TEST(CpuDecode, EndsAtTheModelsPositionsAndAtTheLength) {
  const Weights weights(3);
  const cpu::PackedModel model = weights.packed();
  const auto out = run(model, {{prompt_of(250, 1), {1}, {0}}, {prompt_of(3, 1), {1}, {1}}},
                       {.sampling = {.temperature = 1.5, .max_new_tokens = 9}});
  EXPECT_EQ(out.at(0).tokens.size() + (out.at(0).stopped ? 100U : 0U), 6U);
  EXPECT_EQ(out.at(1).tokens.size() + (out.at(1).stopped ? 100U : 0U), 9U);
}

TEST(CpuDecode, FalseFromTheCallbackCancelsTheRest) {
  const Weights weights(4);
  size_t seen = 0;
  cpu::decode(weights.packed(), many(), {.sampling = {.max_new_tokens = 100}, .threads = 2, .slots = 4},
              [&](const cpu::Finished&) { return ++seen < 5; });
  EXPECT_LT(seen, 60U);
}

TEST(CpuDecode, AnExceptionInTheCallbackComesOut) {
  const Weights weights(5);
  EXPECT_THROW(cpu::decode(weights.packed(), many(), {.sampling = {.max_new_tokens = 50}, .threads = 2},
                           [](const cpu::Finished&) -> bool { throw std::runtime_error("stop"); }),
               std::runtime_error);
}

TEST(CpuDecode, TopKOfOneIsGreedyAndTopPNeverLeavesTheNucleus) {
  const Weights weights(6);
  const cpu::PackedModel model = weights.packed();
  const auto greedy = run(model, {{prompt_of(9, 2), {1}, {0}}}, {.sampling = {.temperature = 0, .max_new_tokens = 30}});
  const auto one =
      run(model, {{prompt_of(9, 2), {77}, {0}}}, {.sampling = {.temperature = 1.3, .top_k = 1, .max_new_tokens = 30}});
  EXPECT_EQ(greedy.at(0).tokens, one.at(0).tokens);
  const auto tight = run(model, {{prompt_of(9, 2), {77}, {0}}},
                         {.sampling = {.temperature = 1.0, .top_p = 1e-6, .max_new_tokens = 30}});
  EXPECT_EQ(greedy.at(0).tokens, tight.at(0).tokens);
}

}  // namespace
}  // namespace kz::lm
