// Token ids and log-probs against the Python packages tokenizers and transformers, on a real model's folder. Slow, and
// skipped where the packages are not installed. KZ_PARITY_MODEL names the folder (models/nano without),
// KZ_PARITY_PYTHON the interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/random.h"
#include "lm/engine.h"

namespace kz::lm {
namespace {

std::string from_environment(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : fallback;
}

class Parity : public testing::Test {
 protected:
  void SetUp() override {
    std::error_code ignored;
    if (!fs::exists(model_ / "tokenizer.json", ignored)) GTEST_SKIP() << "no model in " << model_;
  }
  // Lines that parity.py prints.
  std::vector<std::string> python(const std::string& arguments) const {
    const std::string command =
        from_environment("KZ_PARITY_PYTHON", ".venv/bin/python") + " src/lm/parity.py " + arguments;
    std::string out;
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return {};
    for (char buffer[65536]; const size_t n = std::fread(buffer, 1, sizeof buffer, pipe);) out.append(buffer, n);
    ::pclose(pipe);
    std::vector<std::string> lines;
    for (size_t from = 0, to = 0; (to = out.find('\n', from)) != std::string::npos; from = to + 1)
      lines.push_back(out.substr(from, to - from));
    return lines;
  }
  fs::path model_ = from_environment("KZ_PARITY_MODEL", "models/nano");
};

TEST_F(Parity, TokenIdsAreThoseOfTokenizers) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-parity-").value();
  std::vector<fs::path> sources, files;
  for (const char* root : {"src", "python", "docs", "data"}) {
    std::error_code ignored;
    for (const auto& e : fs::recursive_directory_iterator(root, ignored))
      if (e.is_regular_file() && e.file_size() < 1 << 20 && sources.size() < 500) sources.push_back(e.path());
  }
  for (size_t i = 0; i < sources.size(); ++i) {  // copies: both sides must read the same bytes, whoever edits meanwhile
    const auto text = read_file(sources[i]);
    if (!text) continue;
    files.push_back(dir.path() / (std::to_string(i) + sources[i].filename().string()));
    ASSERT_TRUE(write_file_atomic(files.back(), *text));
  }
  // What sources lack: scripts, emoji, combining marks, odd spaces, digits of other scripts, broken bytes, added
  // tokens.
  ASSERT_TRUE(write_file_atomic(
      dir.path() / "mixed",
      "\u4e2d\u6587\u6587\u672c\uff0c\u6df7\u5408 English\u3002 \U0001F600\U0001F468\u200d\U0001F469\u200d\U0001F467 "
      "e\u0301 n\u0303 \u1e9b\u0323 \u0958\n"
      "\u2003\u00a0\u180e\u200b\u0085x \u0661\u0662\u0663 \u216b \u00bd I'LL we'\u017f \r\n\r\n \t\t  x\n   \n"
      "<|im_start|>user<|im_end|> <|end|> <|coder|><|cpp|> <|endoftext|> don't  1234567 \u0130\u0131 \ufb01\n"));
  std::string broken;
  Rng rng(1);
  for (int i = 0; i < 20000; ++i) broken += static_cast<char>(rng.below(3) != 0 ? 32 + rng.below(95) : rng());
  ASSERT_TRUE(write_file_atomic(dir.path() / "broken", broken));
  files.push_back(dir.path() / "mixed");
  files.push_back(dir.path() / "broken");
  std::string arguments = "ids '" + model_.string() + "'";
  for (const fs::path& f : files) arguments += " '" + f.string() + "'";
  const auto lines = python(arguments);
  if (!lines.empty() && lines[0].starts_with("missing")) GTEST_SKIP() << "Python package " << lines[0];
  ASSERT_EQ(lines.size(), files.size());
  const auto tokenizer = Tokenizer::load(model_).value();
  size_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string text = read_file(files[i]).value();
    bytes += text.size();
    const auto got = tokenizer->encode(text);
    const auto expected = Json::parse(lines[i]).get<std::vector<int32_t>>();
    const auto [a, b] = std::mismatch(got.begin(), got.end(), expected.begin(), expected.end());
    EXPECT_TRUE(a == got.end() && b == expected.end())
        << files[i] << " at token " << a - got.begin() << ": " << (a == got.end() ? "(end)" : tokenizer->token(*a))
        << " against " << (b == expected.end() ? "(end)" : tokenizer->token(*b)) << " after "
        << tokenizer->decode({std::max(got.begin(), a - 5), a}, true);
  }
  std::printf("%zu files, %zu bytes\n", files.size(), bytes);
}

TEST_F(Parity, GreedyLogProbsAreThoseOfTransformers) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-parity-").value();
  const auto engine = Engine::open(model_, {.threads = 2}).value();
  const auto out =
      engine->generate({{.text = "def relu(x):\n    return"}}, {.temperature = 0, .max_new_tokens = 24}).value();
  ASSERT_FALSE(out[0].tokens.empty()) << out[0].error;
  const fs::path request = dir.path() / "request.json";
  ASSERT_TRUE(write_file_atomic(request, Json{{"prompt", out[0].prompt_tokens}, {"tokens", out[0].tokens}}.dump()));
  const auto lines = python("logprobs '" + model_.string() + "' '" + request.string() + "'");
  if (!lines.empty() && lines.back().starts_with("missing")) GTEST_SKIP() << "Python package " << lines.back();
  ASSERT_FALSE(lines.empty());
  const Json answer = Json::parse(lines.back());
  for (size_t i = 0; i < out[0].tokens.size(); ++i) {
    EXPECT_NEAR(answer["logprobs"][i].get<double>(), out[0].logprobs[i], 1e-3) << i;
    EXPECT_EQ(answer["likeliest"][i].get<int32_t>(), out[0].tokens[i]) << i;
  }
}

}  // namespace
}  // namespace kz::lm
