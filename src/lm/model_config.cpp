#include "lm/model_config.h"

namespace kz::lm {

namespace {

// Reads one field of a config, keeping the first thing that is wrong.
class Fields {
 public:
  Fields(const Json& json, std::string_view where) : json_(json), where_(where) {}

  int64_t integer(const char* key, int64_t fallback, int64_t low, int64_t high) {
    const auto it = json_.find(key);
    if (it == json_.end() || it->is_null()) {
      if (fallback < low) wrong(key, "is missing");
      return fallback;
    }
    if (!it->is_number_integer() || it->get<int64_t>() < low || it->get<int64_t>() > high) {
      wrong(key, "is " + dump_json(*it) + "; expected a whole number from " + std::to_string(low) + " to " +
                     std::to_string(high));
      return low;
    }
    return it->get<int64_t>();
  }

  double number(const char* key, double fallback) {
    const auto it = json_.find(key);
    if (it == json_.end() || it->is_null()) return fallback;
    if (!it->is_number() || !(it->get<double>() > 0)) {
      wrong(key, "is " + dump_json(*it) + "; expected a number above 0");
      return fallback;
    }
    return it->get<double>();
  }

  bool flag(const char* key, bool fallback) {
    const auto it = json_.find(key);
    if (it == json_.end() || it->is_null()) return fallback;
    if (!it->is_boolean()) {
      wrong(key, "is " + dump_json(*it) + "; expected true or false");
      return fallback;
    }
    return it->get<bool>();
  }

  void wrong(const std::string& key, const std::string& what) {
    if (error_.empty()) error_ = std::string(where_) + ": \"" + key + "\" " + what;
  }
  const std::string& error() const { return error_; }

 private:
  const Json& json_;
  std::string_view where_;
  std::string error_;
};

void add_ids(const Json& json, const char* key, std::vector<int32_t>& out) {
  const auto it = json.find(key);
  if (it == json.end()) return;
  const auto add = [&](const Json& id) {
    if (!id.is_number_integer()) return;
    const auto value = id.get<int64_t>();
    if (value < 0 || value > INT32_MAX) return;
    for (const int32_t have : out)
      if (have == value) return;
    out.push_back(static_cast<int32_t>(value));
  };
  if (it->is_array()) {
    for (const Json& id : *it) add(id);
  } else {
    add(*it);
  }
}

}  // namespace

int64_t ModelConfig::parameters() const {
  const int64_t q = heads * head_dim, kv = kv_heads * head_dim;
  const int64_t layer =
      hidden * (q + 2 * kv) + (qkv_bias ? q + 2 * kv : 0) + q * hidden + 3 * hidden * intermediate + 2 * hidden;
  return vocab * hidden * (tie_embeddings ? 1 : 2) + layers * layer + hidden;
}

Result<ModelConfig> parse_model_config(const Json& json, std::string_view where) {
  if (!json.is_object())
    return fail("model", std::string(where) + ": not a JSON object; take config.json from the model's own folder");
  const std::string type =
      json.contains("model_type") && json["model_type"].is_string() ? json["model_type"].get<std::string>() : "";
  if (type != "qwen2") {
    return fail("model", std::string(where) + ": model_type \"" + type +
                             "\" is not supported; this program runs qwen2 (Qwen2, Qwen2.5, Qwen2.5-Coder)");
  }
  Fields f(json, where);
  ModelConfig c;
  constexpr int64_t kBig = 1 << 24;
  c.vocab = f.integer("vocab_size", 0, 1, kBig);
  c.hidden = f.integer("hidden_size", 0, 2, kBig);
  c.layers = f.integer("num_hidden_layers", 0, 1, 4096);
  c.heads = f.integer("num_attention_heads", 0, 1, 65536);
  c.kv_heads = f.integer("num_key_value_heads", std::max<int64_t>(c.heads, 1), 1, 65536);
  c.head_dim = f.integer("head_dim", std::max<int64_t>(1, c.hidden / std::max<int64_t>(c.heads, 1)), 1, 65536);
  c.intermediate = f.integer("intermediate_size", 0, 1, kBig);
  c.max_positions = f.integer("max_position_embeddings", 32768, 1, int64_t{1} << 30);
  c.rms_eps = f.number("rms_norm_eps", 1e-6);
  c.rope_theta = f.number("rope_theta", 10000.0);
  c.tie_embeddings = f.flag("tie_word_embeddings", false);
  c.qkv_bias = f.flag("attention_bias", true);
  if (!f.error().empty()) return fail("model", f.error() + "; take config.json from the model's own folder");
  if (c.heads % c.kv_heads != 0) f.wrong("num_key_value_heads", "does not divide num_attention_heads");
  if (!json.contains("head_dim") && c.hidden % c.heads != 0)
    f.wrong("num_attention_heads", "does not divide hidden_size");
  if (c.head_dim % 2 != 0) f.wrong("head_dim", "is odd; rotary positions need pairs");
  if (json.value("hidden_act", Json("silu")) != Json("silu"))
    f.wrong("hidden_act", "is " + dump_json(json["hidden_act"]) + "; only \"silu\" is supported");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto it = json.find(key);
    if (it == json.end() || it->is_null()) continue;
    // Newer files keep theta here, with the type "default": that is no scaling.
    const Json kind = it->is_object() ? it->value("rope_type", it->value("type", Json("default"))) : *it;
    if (kind != Json("default")) {
      f.wrong(key, "is " + dump_json(*it) + "; rope scaling is not supported, set it to null and keep to " +
                       std::to_string(c.max_positions) + " positions");
    } else if (it->contains("rope_theta") && (*it)["rope_theta"].is_number()) {
      c.rope_theta = (*it)["rope_theta"].get<double>();
    }
  }
  if (f.flag("use_sliding_window", false))
    f.wrong("use_sliding_window", "is true; sliding windows are not supported, set it to false");
  if (!f.error().empty()) return fail("model", f.error());
  add_ids(json, "eos_token_id", c.eos);
  std::vector<int32_t> pad;
  add_ids(json, "pad_token_id", pad);
  if (!pad.empty()) c.pad = pad[0];
  return c;
}

Result<ModelConfig> load_model_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  KZ_ASSIGN(const std::string text, read_file(path, 16 << 20));
  KZ_ASSIGN(const Json json, parse_json(text, path.string()));
  KZ_ASSIGN(ModelConfig config, parse_model_config(json, path.string()));
  const fs::path generation = folder / "generation_config.json";
  std::error_code ignored;
  if (fs::exists(generation, ignored)) {
    KZ_ASSIGN(const std::string more, read_file(generation, 16 << 20));
    KZ_ASSIGN(const Json extra, parse_json(more, generation.string()));
    if (extra.is_object()) add_ids(extra, "eos_token_id", config.eos);
  }
  return config;
}

Json model_config_json(const ModelConfig& c) {
  Json eos = c.eos.size() == 1 ? Json(c.eos[0]) : Json(c.eos);
  return Json{{"architectures", {"Qwen2ForCausalLM"}},
              {"model_type", c.architecture},
              {"vocab_size", c.vocab},
              {"hidden_size", c.hidden},
              {"num_hidden_layers", c.layers},
              {"num_attention_heads", c.heads},
              {"num_key_value_heads", c.kv_heads},
              {"head_dim", c.head_dim},
              {"intermediate_size", c.intermediate},
              {"max_position_embeddings", c.max_positions},
              {"rms_norm_eps", c.rms_eps},
              {"rope_theta", c.rope_theta},
              {"tie_word_embeddings", c.tie_embeddings},
              {"attention_bias", c.qkv_bias},
              {"hidden_act", "silu"},
              {"torch_dtype", "float32"},
              {"eos_token_id", eos},
              {"pad_token_id", c.pad}};
}

ModelConfig nano_config(int64_t vocab, int64_t hidden, int64_t layers, int32_t eos, int64_t max_positions) {
  ModelConfig c;
  c.vocab = vocab;
  c.hidden = hidden;
  c.layers = layers;
  c.head_dim = 32;
  c.heads = hidden / c.head_dim;
  c.kv_heads = c.heads / 2;
  c.intermediate = (hidden * 8 / 3 + 31) / 32 * 32;
  c.max_positions = max_positions;
  c.eos = {eos};
  c.pad = eos;
  return c;
}

}  // namespace kz::lm
