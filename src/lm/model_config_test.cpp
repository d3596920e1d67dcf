#include "lm/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kz::lm {
namespace {

using testing::HasSubstr;

// What Qwen2.5-Coder-0.5B-Instruct ships.
Json qwen() {
  return Json::parse(
      R"({"architectures":["Qwen2ForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,"eos_token_id":151645,
    "hidden_act":"silu","hidden_size":896,"intermediate_size":4864,"max_position_embeddings":32768,"max_window_layers":24,
    "model_type":"qwen2","num_attention_heads":14,"num_hidden_layers":24,"num_key_value_heads":2,"rms_norm_eps":1e-06,
    "rope_theta":1000000.0,"sliding_window":32768,"tie_word_embeddings":true,"torch_dtype":"bfloat16","use_sliding_window":false,
    "vocab_size":151936})");
}

TEST(ModelConfig, ReadsQwen) {
  const ModelConfig c = parse_model_config(qwen(), "config.json").value();
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_TRUE(c.qkv_bias);
  EXPECT_EQ(c.rope_theta, 1e6);
  EXPECT_EQ(c.eos, std::vector<int32_t>{151645});
  EXPECT_EQ(c.parameters(), 494032768);  // 0.49 B, as the model's card says
}

TEST(ModelConfig, ComesBackFromItsOwnJson) {
  const ModelConfig a = nano_config(700, 192, 6, 5);
  const ModelConfig b = parse_model_config(model_config_json(a), "x").value();
  EXPECT_EQ(model_config_json(a), model_config_json(b));
  EXPECT_LT(a.parameters(), 4000000);
}

TEST(ModelConfig, TheEndTokensOfGenerationConfigCountToo) {
  const auto dir = TempDir::make(fs::temp_directory_path(), "kz-config-").value();
  ASSERT_TRUE(write_file_atomic(dir.path() / "config.json", qwen().dump()));
  ASSERT_TRUE(write_file_atomic(dir.path() / "generation_config.json", R"({"eos_token_id":[151645,151643]})"));
  EXPECT_EQ(load_model_config(dir.path()).value().eos, (std::vector<int32_t>{151645, 151643}));
}

TEST(ModelConfig, RefusesWhatItCannotRun) {
  const auto error = [](const char* key, const Json& value) {
    Json json = qwen();
    json[key] = value;
    const auto r = parse_model_config(json, "m/config.json");
    return r ? std::string() : r.error().message;
  };
  EXPECT_THAT(error("model_type", "mamba"), AllOf(HasSubstr("m/config.json"), HasSubstr("mamba")));
  EXPECT_THAT(error("rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}), HasSubstr("rope scaling is not supported"));
  EXPECT_EQ(error("rope_scaling", nullptr), "");
  EXPECT_EQ(error("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}), "");
  EXPECT_THAT(error("use_sliding_window", true), HasSubstr("sliding"));
  EXPECT_THAT(error("hidden_act", "gelu"), HasSubstr("gelu"));
  EXPECT_THAT(error("num_key_value_heads", 3), HasSubstr("does not divide"));
  EXPECT_THAT(error("hidden_size", -4), HasSubstr("hidden_size"));
  EXPECT_THAT(error("hidden_size", "big"), HasSubstr("hidden_size"));
  EXPECT_THAT(error("vocab_size", 1e30), HasSubstr("vocab_size"));
  EXPECT_THAT(error("head_dim", 63), HasSubstr("odd"));
  EXPECT_THAT(error("rms_norm_eps", 0), HasSubstr("rms_norm_eps"));
  EXPECT_FALSE(parse_model_config(Json::array(), "x"));
  Json none = qwen();
  none.erase("num_hidden_layers");
  EXPECT_THAT(parse_model_config(none, "x").error().message, HasSubstr("num_hidden_layers"));
}

}  // namespace
}  // namespace kz::lm
