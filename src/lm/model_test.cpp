// The CPU decoder, the device decoder and the training forward pass must be one model.
#include "lm/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "lm/device_decode.h"
#include "lm/model_engine.h"
#include "lm/test_tokenizer.h"

namespace kz::lm {
namespace {

// One thread: these tensors are so small that threads would only wait for each other.
const auto* const kOneThread = testing::AddGlobalTestEnvironment([] {
  struct OneThread : testing::Environment {
    void SetUp() override { set_threads(1); }
  };
  return new OneThread;
}());

ModelConfig tiny() { return nano_config(kTestVocab, 64, 2, kTestEnd, 256); }

std::shared_ptr<const Tokenizer> tokenizer() { return Tokenizer::parse(test_tokenizer().dump(), "test").value(); }

std::vector<Prompt> prompts(int n, int samples) {
  std::vector<Prompt> out;
  for (int i = 0; i < n; ++i) {
    std::string text = "float* the";
    for (int j = 0; j < i * 7; ++j) text += " in" + std::to_string(j);
    for (int s = 0; s < samples; ++s) out.push_back({.text = text, .seed = static_cast<uint64_t>(100 * i + s)});
  }
  return out;
}

// Log-probs of a completion's tokens by the training forward pass.
std::vector<float> trained_logprobs(const Model& model, const Completion& c, double temperature) {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> ids(c.prompt_tokens.begin(), c.prompt_tokens.end());
  ids.insert(ids.end(), c.tokens.begin(), c.tokens.end());
  const auto n = static_cast<int64_t>(ids.size());
  const at::Tensor input = at::tensor(ids, at::kLong).view({1, n});
  const at::Tensor logs =
      at::log_softmax(at::linear(model.hidden(input, at::kFloat), model.head())[0] / temperature, -1);
  std::vector<float> out;
  for (size_t t = 0; t < c.tokens.size(); ++t)
    out.push_back(logs[static_cast<int64_t>(c.prompt_tokens.size() + t) - 1][c.tokens[t]].item<float>());
  return out;
}

class Decoding : public testing::TestWithParam<double> {};

TEST_P(Decoding, LogProbsAreTheTrainers) {
  const auto model = Model::random(tiny(), 3, at::kCPU);
  const auto engine = make_engine(model, tokenizer()).value();
  const Sampling sampling{.temperature = GetParam(), .max_new_tokens = 70};
  const auto out = engine->generate(prompts(5, 3), sampling).value();
  double worst = 0;
  for (const Completion& c : out) {
    ASSERT_FALSE(c.tokens.empty());
    EXPECT_EQ(c.tokens.size(), c.logprobs.size());
    const auto expected = trained_logprobs(*model, c, GetParam() > 0 ? GetParam() : 1.0);
    for (size_t t = 0; t < expected.size(); ++t)
      worst = std::max(worst, std::abs(static_cast<double>(expected[t] - c.logprobs[t])));
  }
  EXPECT_LT(worst, 1e-4);
}
INSTANTIATE_TEST_SUITE_P(Temperatures, Decoding, testing::Values(0.0, 0.7, 1.0));

TEST(Model, GreedyIsArgmaxOfTheForwardPass) {
  const auto model = Model::random(tiny(), 4, at::kCPU);
  const auto engine = make_engine(model, tokenizer()).value();
  const auto out = engine->generate(prompts(3, 1), {.temperature = 0, .max_new_tokens = 40}).value();
  for (const Completion& c : out) {
    std::vector<int64_t> ids(c.prompt_tokens.begin(), c.prompt_tokens.end());
    for (const int32_t token : c.tokens) {
      const at::Tensor logits =
          at::linear(model->hidden(at::tensor(ids, at::kLong).view({1, -1}), at::kFloat), model->head())[0][-1];
      EXPECT_EQ(at::argmax(logits).item<int64_t>(), token);
      ids.push_back(token);
    }
  }
}

// The same request decoded by torch operations draws the same tokens, up to rounding.
TEST(Model, DeviceDecodeAgreesWithTheCpu) {
  const auto model = Model::random(tiny(), 5, at::kCPU);
  const auto tok = tokenizer();
  const auto engine = make_engine(model, tok).value();
  const auto asked = prompts(4, 4);
  for (const Sampling& sampling :
       {Sampling{.temperature = 1.0, .max_new_tokens = 50}, Sampling{.temperature = 0, .max_new_tokens = 50},
        Sampling{.temperature = 0.8, .top_p = 0.9, .top_k = 40, .max_new_tokens = 50}}) {
    const auto expected = engine->generate(asked, sampling).value();
    std::vector<cpu::Request> requests;
    for (size_t i = 0; i < asked.size(); i += 4)
      requests.push_back({tok->encode(asked[i].text),
                          {asked[i].seed, asked[i + 1].seed, asked[i + 2].seed, asked[i + 3].seed},
                          {i, i + 1, i + 2, i + 3}});
    cpu::DecodeOptions options{.sampling = sampling, .slots = 8};
    size_t seen = 0, same = 0, total = 0;
    const auto counts = device_decode(*model, at::kFloat, requests, options, [&](cpu::Finished f) {
      ++seen;
      const Completion& e = expected[f.id];
      total += e.tokens.size();
      for (size_t t = 0; t < std::min(e.tokens.size(), f.tokens.size()) && e.tokens[t] == f.tokens[t]; ++t) {
        ++same;
        EXPECT_NEAR(e.logprobs[t], f.logprobs[t], 1e-4);
      }
      return true;
    });
    EXPECT_EQ(seen, asked.size());
    EXPECT_GE(counts.sampled, same);
    EXPECT_GE(same, total * 9 / 10);  // a draw on the edge between two tokens may fall to either side
  }
}

TEST(Model, SavesAndLoadsTheSameBits) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-model-").value();
  const auto model = Model::random(tiny(), 6, at::kCPU);
  ASSERT_TRUE(model->save(dir.path(), at::kFloat));
  const auto again = Model::load(dir.path(), at::kCPU).value();
  const auto a = model->parameters(), b = again->parameters();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
  EXPECT_EQ(again->config().parameters(), [&] {
    int64_t n = 0;
    for (const auto& p : b) n += p.tensor.numel();
    return n;
  }());
}

TEST(Model, BF16FilesLoadToTheRoundedWeights) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-model-").value();
  const auto model = Model::random(tiny(), 7, at::kCPU);
  ASSERT_TRUE(model->save(dir.path(), at::kBFloat16));
  const auto again = Model::load(dir.path(), at::kCPU).value();
  EXPECT_TRUE(at::equal(again->embedding(), model->embedding().to(at::kBFloat16).to(at::kFloat)));
}

TEST(Model, AWrongShapeIsALineThatNamesTheTensor) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-model-").value();
  ASSERT_TRUE(Model::random(tiny(), 8, at::kCPU)->save(dir.path(), at::kFloat));
  ModelConfig other = tiny();
  other.intermediate += 32;
  ASSERT_TRUE(write_file_atomic(dir.path() / "config.json", model_config_json(other).dump()));
  const auto r = Model::load(dir.path(), at::kCPU);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, "weights");
  EXPECT_THAT(r.error().message, testing::HasSubstr("mlp"));
}

TEST(Model, DevicesThatAreNotThere) {
  EXPECT_FALSE(open_device("tpu"));
  EXPECT_FALSE(open_device("cuda:99"));
  EXPECT_FALSE(open_device("cuda:x"));
  EXPECT_TRUE(open_device("cpu"));
}

}  // namespace
}  // namespace kz::lm
