#include "lm/engine.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "lm/cpu/decode.h"
#include "lm/device_decode.h"
#include "lm/model.h"
#include "lm/model_engine.h"

namespace kz::lm {

namespace {

std::atomic<int> g_threads{0};

// Reads a model's tensors as plain pointers; valid while the model's weights live.
cpu::RawWeights raw_weights(const Model& model) {
  const auto data = [](const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; };
  cpu::RawWeights raw;
  raw.embedding = data(model.embedding());
  raw.head = model.config().tie_embeddings ? nullptr : data(model.head());
  raw.norm = data(model.norm());
  for (const Layer& l : model.layers())
    raw.layers.push_back(
        {data(l.norm1), data(l.qkv), data(l.qkv_bias), data(l.out), data(l.norm2), data(l.gate_up), data(l.down)});
  return raw;
}

class LocalEngine final : public Engine {
 public:
  LocalEngine(std::shared_ptr<const Model> model, std::shared_ptr<const Tokenizer> tokenizer,
              const EngineOptions& options, at::ScalarType dtype)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)), options_(options), dtype_(dtype) {}

  Result<std::vector<Completion>> generate(const std::vector<Prompt>& prompts, const Sampling& sampling,
                                           const std::function<void(size_t, const Completion&)>& done) override {
    const std::lock_guard lock(mutex_);
    const Stopwatch watch;
    std::vector<Completion> out(prompts.size());
    std::vector<cpu::Request> requests = group(prompts, sampling, out, done);
    const auto finish = [&](cpu::Finished f) {
      Completion& c = out[f.id];
      complete(c, std::move(f), sampling);
      ++stats_.sequences;
      if (done) done(f.id, c);
      return true;
    };
    try {
      const cpu::DecodeCounts counts = model_->device().is_cpu() ? on_cpu(std::move(requests), sampling, finish)
                                                                 : on_device(std::move(requests), sampling, finish);
      stats_.prefilled_tokens += counts.prefilled;
      stats_.sampled_tokens += counts.sampled;
    } catch (const std::bad_alloc&) {
      return fail("memory", "out of memory while sampling " + std::to_string(prompts.size()) +
                                " completions; lower the batch or max_new_tokens");
    } catch (const c10::Error& e) {
      return fail("device", std::string("sampling failed: ") + e.what_without_backtrace());
    }
    stats_.seconds += watch.seconds();
    return out;
  }

  const ModelConfig& config() const override { return model_->config(); }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  // Prompts of the same text become one request. What cannot be sampled at all is completed at once, as an error.
  std::vector<cpu::Request> group(const std::vector<Prompt>& prompts, const Sampling& sampling,
                                  std::vector<Completion>& out,
                                  const std::function<void(size_t, const Completion&)>& done) {
    std::vector<cpu::Request> requests;
    std::map<std::string_view, size_t> by_text;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto [it, fresh] = by_text.try_emplace(prompts[i].text, requests.size());
      if (fresh) requests.push_back({tokenizer_->encode(prompts[i].text), {}, {}});
      cpu::Request& r = requests[it->second];
      out[i].prompt_tokens = r.prompt;
      stats_.prompt_tokens += r.prompt.size();
      const auto n = static_cast<int64_t>(r.prompt.size());
      if (n == 0 || n >= model_->config().max_positions || sampling.max_new_tokens < 1) {
        out[i].finish = "error";
        out[i].error = n == 0 ? "the prompt is empty"
                       : sampling.max_new_tokens < 1
                           ? "max_new_tokens is below 1"
                           : "the prompt has " + std::to_string(n) + " tokens, the model " +
                                 std::to_string(model_->config().max_positions) + " positions";
        if (done) done(i, out[i]);
        continue;
      }
      r.seeds.push_back(prompts[i].seed);
      r.ids.push_back(i);
    }
    std::erase_if(requests, [](const cpu::Request& r) { return r.ids.empty(); });
    return requests;
  }

  void complete(Completion& c, cpu::Finished f, const Sampling& sampling) const {
    c.tokens = std::move(f.tokens);
    c.logprobs = std::move(f.logprobs);
    c.finish = f.stopped ? "stop" : "length";
    const auto& eos = config().eos;
    std::vector<int32_t> visible = c.tokens;
    if (!visible.empty() && std::find(eos.begin(), eos.end(), visible.back()) != eos.end()) visible.pop_back();
    // Special tokens in the middle are shown: text that hides them would be read as something the model did not write.
    c.text = tokenizer_->decode(visible, /*specials=*/true);
    size_t cut = std::string::npos;
    for (const std::string& stop : sampling.stop)
      if (!stop.empty()) cut = std::min(cut, c.text.find(stop));
    if (cut != std::string::npos) c.text.resize(cut);
  }

  cpu::DecodeOptions decode_options(const Sampling& sampling) const {
    cpu::DecodeOptions o;
    o.sampling = sampling;
    o.threads = options_.threads > 0 ? options_.threads : threads();
    o.slots = options_.max_batch > 0 ? std::max(1, (options_.max_batch + o.threads - 1) / o.threads) : 64;
    if (!sampling.stop.empty()) {
      o.stops = [this, &sampling](const std::vector<int32_t>& tokens) {
        size_t longest = 0;
        for (const std::string& s : sampling.stop) longest = std::max(longest, s.size());
        // Every token has at least a byte, so a stop string that ends with the last token lies in the last `longest` of
        // them.
        const size_t n = std::min(tokens.size(), longest + 4);
        const std::string tail =
            tokenizer_->decode({tokens.end() - static_cast<std::ptrdiff_t>(n), tokens.end()}, true);
        return std::any_of(sampling.stop.begin(), sampling.stop.end(),
                           [&](const std::string& s) { return !s.empty() && tail.find(s) != std::string::npos; });
      };
    }
    return o;
  }

  cpu::DecodeCounts on_cpu(std::vector<cpu::Request> requests, const Sampling& sampling,
                           const std::function<bool(cpu::Finished)>& finish) {
    if (!packed_ || packed_version_ != model_->version()) {
      if (!rope_) rope_ = std::make_shared<RopeTable>(config().max_positions, config().head_dim, config().rope_theta);
      packed_.reset();
      packed_ = std::make_unique<cpu::PackedModel>(config(), raw_weights(*model_), rope_);
      packed_version_ = model_->version();
    }
    return cpu::decode(*packed_, std::move(requests), decode_options(sampling), finish);
  }

  cpu::DecodeCounts on_device(std::vector<cpu::Request> requests, const Sampling& sampling,
                              const std::function<bool(cpu::Finished)>& finish) {
    cpu::DecodeOptions o = decode_options(sampling);
    o.slots = options_.max_batch > 0 ? options_.max_batch : 1024;
    return device_decode(*model_, dtype_, std::move(requests), o, finish);
  }

  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const EngineOptions options_;
  const at::ScalarType dtype_;
  mutable std::mutex mutex_;
  EngineStats stats_;
  std::shared_ptr<const RopeTable> rope_;
  std::unique_ptr<cpu::PackedModel> packed_;
  uint64_t packed_version_ = 0;
};

}  // namespace

Status check_vocabulary(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view where) {
  if (tokenizer.size() > config.vocab) {
    return fail("model", std::string(where) + ": tokenizer.json has ids up to " + std::to_string(tokenizer.size() - 1) +
                             ", the embedding " + std::to_string(config.vocab) + " rows; they are of different models");
  }
  for (const int32_t id : config.eos)
    if (id >= config.vocab)
      return fail("model", std::string(where) + ": eos_token_id " + std::to_string(id) + " is outside the vocabulary");
  if (config.eos.empty())
    return fail("model", std::string(where) + ": config.json has no eos_token_id, so no completion would end; add it");
  return {};
}

Result<std::shared_ptr<Engine>> make_engine(std::shared_ptr<const Model> model,
                                            std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options) {
  KZ_ASSIGN(const at::ScalarType dtype, compute_dtype(options.dtype, model->device()));
  KZ_TRY(check_vocabulary(model->config(), *tokenizer, "model"));
  return std::make_shared<LocalEngine>(std::move(model), std::move(tokenizer), options, dtype);
}

Result<std::shared_ptr<Engine>> Engine::open(const fs::path& folder, const EngineOptions& options) {
  KZ_ASSIGN(const at::Device device, open_device(options.device));
  KZ_ASSIGN(auto tokenizer, Tokenizer::load(folder));
  KZ_ASSIGN(const ModelConfig config, load_model_config(folder));
  KZ_TRY(check_vocabulary(config, *tokenizer, folder.string()));
  KZ_ASSIGN(auto model, Model::load(folder, device));
  return make_engine(std::move(model), std::move(tokenizer), options);
}

void set_threads(int n) {
  g_threads = std::max(0, n);
  at::set_num_threads(threads());
}

int threads() {
  const int n = g_threads;
  return n > 0 ? n : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace kz::lm
