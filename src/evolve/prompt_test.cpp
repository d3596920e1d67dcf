#include "evolve/prompt.h"

#include <gtest/gtest.h>

namespace kz::evolve {
namespace {

TEST(Prompt, NanoForm) {
  EXPECT_EQ(coder_prompt(PromptFormat::kNano, "cpp", "MODULE\n").text, "<|coder|><|cpp|>MODULE\n<|answer|>");
  EXPECT_EQ(coder_prompt(PromptFormat::kNano, "triton", "M").text, "<|coder|><|triton|>M<|answer|>");
  EXPECT_EQ(proposer_prompt(PromptFormat::kNano, {"torch.relu", "torch.softmax"}).text,
            "<|proposer|>torch.relu\ntorch.softmax<|answer|>");
  EXPECT_EQ(extract_code(PromptFormat::kNano, "anything ```", "class ModelNew"), "anything ```");
}

TEST(Prompt, ChatForm) {
  const auto p = coder_prompt(PromptFormat::kChatMl, "cuda", "class Model: pass\n");
  EXPECT_TRUE(p.text.starts_with("<|im_start|>system\n"));
  EXPECT_TRUE(p.text.ends_with("<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_NE(p.text.find("```python\nclass Model: pass\n```"), std::string::npos);
  EXPECT_NE(p.user.find("CUDA"), std::string::npos);
  EXPECT_FALSE(p.system.empty());
}

TEST(Prompt, CodeOfAReply) {
  const auto code = [](const char* text) { return extract_code(PromptFormat::kChatMl, text, "class ModelNew"); };
  EXPECT_EQ(code("Here:\n```python\nclass ModelNew: 1\n```\nDone."), "class ModelNew: 1\n");
  EXPECT_EQ(code("```\nclass ModelNew: 1\n```\nand to test it\n```python\nprint(1)\n```"), "class ModelNew: 1\n");
  EXPECT_EQ(code("```python\nclass ModelNew: old\n```\nBetter:\n```python\nclass ModelNew: new\n```"),
            "class ModelNew: new\n");
  EXPECT_EQ(code("```python\nclass ModelNew: cut off"), "class ModelNew: cut off");
  EXPECT_EQ(code("no fence, class ModelNew: 1"), "no fence, class ModelNew: 1");
  EXPECT_EQ(code("```"), "```");
  EXPECT_EQ(code("```python\nprint(1)\n```"), "print(1)\n");
}

TEST(Prompt, FormatByTokenizer) {
  const TempDir dir = *TempDir::make(fs::temp_directory_path(), "kevolve-prompt-");
  ASSERT_FALSE(prompt_format("auto", dir.path()));
  ASSERT_TRUE(write_file_atomic(dir.path() / "tokenizer.json", R"({"added_tokens": [{"content": "<|coder|>"}]})"));
  EXPECT_EQ(*prompt_format("auto", dir.path()), PromptFormat::kNano);
  ASSERT_TRUE(write_file_atomic(dir.path() / "tokenizer.json", "{}"));
  EXPECT_EQ(*prompt_format("auto", dir.path()), PromptFormat::kChatMl);
  EXPECT_EQ(*prompt_format("nano", dir.path()), PromptFormat::kNano);
  EXPECT_FALSE(prompt_format("alpaca", dir.path()));
}

}  // namespace
}  // namespace kz::evolve
