#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/clock.h"
#include "base/random.h"
#include "lm/model.h"
#include "lm/model_engine.h"
#include "train/batch.h"
#include "train/checkpoint.h"
#include "train/loss.h"
#include "train/optimizer.h"

namespace kz::train {

namespace {

Status check_options(const TrainerOptions& o) {
  const auto wrong = [](const char* key, const char* what) { return fail("config", std::string(key) + " " + what); };
  const OptimizerOptions& a = o.optimizer;
  if (!(a.lr >= 0) || !std::isfinite(a.lr)) return wrong("lr", "must be a number of at least 0");
  if (!(a.beta1 >= 0 && a.beta1 < 1) || !(a.beta2 >= 0 && a.beta2 < 1))
    return wrong("beta1 and beta2", "must lie in [0, 1)");
  if (a.schedule != "constant" && a.schedule != "cosine" && a.schedule != "linear")
    return wrong("schedule", "must be constant, cosine or linear");
  const PolicyOptions& p = o.policy;
  if (!(p.temperature > 0)) return wrong("temperature", "must be above 0 for training");
  if (p.epochs < 1 || p.minibatches < 1) return wrong("epochs and minibatches", "must be at least 1");
  if (!(p.clip_low >= 0 && p.clip_low <= 1) || !(p.clip_high >= 0))
    return wrong("clip_low and clip_high", "must lie in [0, 1] and above 0");
  if (p.constant_length < 1) return wrong("constant_length", "must be at least 1");
  return {};
}

// Sums over tokens that stay on the device until a step ends.
struct Sums {
  at::Tensor loss, entropy, kl_old, kl_start, clipped, mismatch;
  static void add(at::Tensor& to, const at::Tensor& value) {
    const at::Tensor v = value.detach().sum();
    to = to.defined() ? to + v : v;
  }
};
double number(const at::Tensor& t) { return t.defined() ? t.item<double>() : 0.0; }

class LocalTrainer final : public Trainer {
 public:
  LocalTrainer(TrainerOptions options, std::shared_ptr<lm::Model> model, std::shared_ptr<lm::Model> start,
               std::shared_ptr<const lm::Tokenizer> tokenizer, std::shared_ptr<lm::Engine> engine, at::ScalarType dtype)
      : options_(std::move(options)),
        model_(std::move(model)),
        start_(std::move(start)),
        tokenizer_(std::move(tokenizer)),
        engine_(std::move(engine)),
        dtype_(dtype),
        adam_(trainable(*model_), options_.optimizer) {
    if (options_.micro_tokens <= 0) options_.micro_tokens = model_->device().is_cuda() ? 131072 : 4096;
  }

  Result<StepStats> sft_step(const std::vector<TrainRow>& rows, bool stats) override {
    const std::vector<RowView> views = views_of(rows);
    KZ_TRY(check_rows(views, config()));
    return guarded([&]() -> Result<StepStats> { return sft(views, stats); });
  }

  Result<StepStats> policy_step(const PolicyBatch& batch) override {
    std::vector<RowView> views;
    for (const PolicySequence& s : batch.sequences) views.push_back({&s.prompt, &s.answer});
    KZ_TRY(check_rows(views, config()));
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      const PolicySequence& s = batch.sequences[i];
      const auto broken = [](float l) { return !std::isfinite(l); };
      if (s.old_logprobs.size() != s.answer.size() ||
          std::any_of(s.old_logprobs.begin(), s.old_logprobs.end(), broken) || !std::isfinite(s.advantage)) {
        return fail("train", "sequence " + std::to_string(i) + " has " + std::to_string(s.old_logprobs.size()) +
                                 " log-probs for " + std::to_string(s.answer.size()) +
                                 " answer tokens, or a log-prob or advantage that is no finite number");
      }
    }
    KZ_TRY(check_options(options_));
    if (options_.policy.kl > 0 && !start_)
      return fail("config", "kl was 0 when the trainer was opened, so no start was kept; open it with kl above 0");
    return guarded([&]() -> Result<StepStats> { return policy(batch, views); });
  }

  Result<double> evaluate(const std::vector<TrainRow>& rows) override {
    KZ_ASSIGN(const auto logs, logprobs(rows, 1.0));
    double sum = 0, n = 0;
    for (const auto& row : logs) {
      for (const float l : row) sum -= static_cast<double>(l);
      n += static_cast<double>(row.size());
    }
    return sum / n;
  }

  Result<std::vector<std::vector<float>>> logprobs(const std::vector<TrainRow>& rows, double temperature) override {
    const std::vector<RowView> views = views_of(rows);
    KZ_TRY(check_rows(views, config()));
    return guarded(
        [&]() -> Result<std::vector<std::vector<float>>> { return answer_logprobs(*model_, views, temperature); });
  }

  Status save(const fs::path& folder) const override {
    return save_checkpoint(folder, *model_, *tokenizer_, {step_, adam_.state()});
  }

  Status load(const fs::path& folder) override {
    TrainerState state{step_, adam_.state()};
    KZ_TRY(load_checkpoint(folder, *model_, state));
    step_ = state.step;
    return {};
  }

  Status export_model(const fs::path& folder, const std::string& dtype) const override {
    if (dtype != "fp32" && dtype != "bf16")
      return fail("config", "dtype \"" + dtype + "\": expected \"fp32\" or \"bf16\"");
    return replace_folder(folder, [&](const fs::path& to) -> Status {
      KZ_TRY(model_->save(to, dtype == "bf16" ? at::kBFloat16 : at::kFloat));
      return write_file_atomic(to / "tokenizer.json", tokenizer_->source());
    });
  }

  std::shared_ptr<lm::Engine> generator() override { return engine_; }
  const lm::ModelConfig& config() const override { return model_->config(); }
  const lm::Tokenizer& tokenizer() const override { return *tokenizer_; }
  int64_t step() const override { return step_; }
  double lr() const override { return learning_rate(options_.optimizer, step_); }
  double lr_base() const override { return options_.optimizer.lr; }
  void set_lr(double lr) override { options_.optimizer.lr = lr; }
  PolicyOptions& policy() override { return options_.policy; }

 private:
  static std::vector<lm::NamedTensor> trainable(const lm::Model& model) {
    std::vector<lm::NamedTensor> out = model.parameters();
    for (lm::NamedTensor& p : out) p.tensor.requires_grad_(true);
    return out;
  }

  static std::vector<RowView> views_of(const std::vector<TrainRow>& rows) {
    std::vector<RowView> views;
    views.reserve(rows.size());
    for (const TrainRow& r : rows) views.push_back({&r.prompt, &r.answer});
    return views;
  }

  // Torch reports by exception: out of memory is expected, the rest is named.
  template <typename F>
  auto guarded(const F& f) -> decltype(f()) {
    try {
      return f();
    } catch (const std::bad_alloc&) {
      adam_.clear_gradients();
      return fail("memory",
                  "out of memory in training; lower micro_tokens (now " + std::to_string(options_.micro_tokens) + ")");
    } catch (const c10::OutOfMemoryError&) {
      adam_.clear_gradients();
      return fail("memory", "out of device memory in training; lower micro_tokens (now " +
                                std::to_string(options_.micro_tokens) + ")");
    } catch (const c10::Error& e) {
      adam_.clear_gradients();
      return fail("train", std::string("torch: ") + e.what_without_backtrace());
    }
  }

  static std::vector<size_t> all(size_t n) {
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  }

  TokenLogProbs forward(const lm::Model& model, const MicroBatch& batch, double temperature, bool entropy) const {
    const at::Tensor hidden = model.hidden(batch.ids, dtype_);
    const at::Tensor picked = hidden.view({-1, hidden.size(2)}).index_select(0, batch.places);
    return token_logprobs(picked, model.head(), batch.targets, temperature, entropy);
  }

  std::vector<std::vector<float>> answer_logprobs(const lm::Model& model, const std::vector<RowView>& rows,
                                                  double temperature) const {
    const at::NoGradGuard no_grad;
    std::vector<std::vector<float>> out(rows.size());
    for (const auto& indices : plan_micro_batches(rows, all(rows.size()), options_.micro_tokens)) {
      const MicroBatch batch = make_micro_batch(rows, indices, model_->device());
      const at::Tensor logs = forward(model, batch, temperature, false).logp.cpu();
      const float* next = logs.const_data_ptr<float>();
      for (const size_t i : indices) {
        out[i].assign(next, next + rows[i].answer->size());
        next += rows[i].answer->size();
      }
    }
    return out;
  }

  StepStats count(const std::vector<RowView>& rows) const {
    StepStats s;
    for (const RowView& r : rows) {
      ++s.sequences;
      s.tokens += r.size();
      s.answer_tokens += static_cast<int64_t>(r.answer->size());
    }
    return s;
  }

  // The optimiser step itself; `check` waits for the device and refuses a norm that is not finite.
  Status update(StepStats& stats, bool check) {
    stats.lr = lr();
    const at::Tensor norm = adam_.step(stats.lr);
    stats.grad_norm = std::numeric_limits<double>::quiet_NaN();
    if (check) {
      stats.grad_norm = norm.item<double>();
      if (!std::isfinite(stats.grad_norm)) {
        return fail("train", "step " + std::to_string(step_ + 1) +
                                 ": the gradient is not finite, the weights were left alone; lower lr (now " +
                                 std::to_string(stats.lr) + ") or look at the rows");
      }
    }
    ++step_;
    stats.step = step_;
    model_->touch();
    return {};
  }

  Result<StepStats> sft(const std::vector<RowView>& rows, bool want_stats) {
    const Stopwatch watch;
    StepStats stats = count(rows);
    at::Tensor total;
    for (const auto& indices : plan_micro_batches(rows, all(rows.size()), options_.micro_tokens)) {
      const MicroBatch batch = make_micro_batch(rows, indices, model_->device());
      const at::Tensor loss =
          forward(*model_, batch, 1.0, false).logp.sum().neg() / static_cast<double>(stats.answer_tokens);
      loss.backward();
      Sums::add(total, loss);
    }
    KZ_TRY(update(stats, want_stats));
    stats.loss = want_stats ? number(total) : std::numeric_limits<double>::quiet_NaN();
    stats.seconds = watch.seconds();
    return stats;
  }

  at::Tensor upload(const std::vector<float>& values) const {
    return at::tensor(values, at::kFloat).to(model_->device());
  }

  Result<StepStats> policy(const PolicyBatch& batch, const std::vector<RowView>& rows) {
    const Stopwatch watch;
    const PolicyOptions& o = options_.policy;
    StepStats stats = count(rows);
    Sums sums;
    int64_t counted = 0, compared = 0, updates = 0;
    std::vector<std::vector<float>> here;  // log-probs before the first update
    if (o.importance_cap > 0) {
      here = answer_logprobs(*model_, rows, o.temperature);
      double gap = 0;
      for (size_t i = 0; i < rows.size(); ++i)
        for (size_t t = 0; t < here[i].size(); ++t)
          gap += std::abs(static_cast<double>(here[i][t]) - static_cast<double>(batch.sequences[i].old_logprobs[t]));
      stats.mismatch = gap / static_cast<double>(stats.answer_tokens);
    }
    Rng rng(derive_seed(batch.seed, "minibatches"));
    for (int epoch = 0; epoch < o.epochs; ++epoch) {
      std::vector<size_t> order = all(rows.size());
      rng.shuffle(order);
      const size_t per = (order.size() + static_cast<size_t>(o.minibatches) - 1) / static_cast<size_t>(o.minibatches);
      for (size_t from = 0; from < order.size(); from += per) {
        const std::vector<size_t> part(order.begin() + static_cast<std::ptrdiff_t>(from),
                                       order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), from + per)));
        double tokens = 0;
        for (const size_t i : part) tokens += static_cast<double>(rows[i].answer->size());
        for (const auto& indices : plan_micro_batches(rows, part, options_.micro_tokens)) {
          const MicroBatch micro = make_micro_batch(rows, indices, model_->device());
          const TokenLogProbs logs = forward(*model_, micro, o.temperature, /*entropy=*/true);
          const PolicyTokens t =
              policy_tokens(batch, indices, here, logs.logp, static_cast<double>(part.size()), tokens, micro);
          const PolicyLoss loss = policy_loss(t, o);
          loss.loss.backward();
          Sums::add(sums.loss, loss.loss);
          Sums::add(sums.entropy, logs.entropy);
          Sums::add(sums.kl_old, loss.kl_old);
          Sums::add(sums.clipped, loss.clipped);
          if (loss.kl_start.defined()) Sums::add(sums.kl_start, loss.kl_start);
          counted += micro.answer_tokens;
          if (updates == 0 && here.empty()) {
            Sums::add(sums.mismatch, (logs.logp.detach() - t.old_logp).abs());
            compared += micro.answer_tokens;
          }
        }
        KZ_TRY(update(stats, /*check=*/true));
        ++updates;
      }
    }
    const auto mean = [&](const at::Tensor& sum) { return number(sum) / static_cast<double>(counted); };
    stats.loss = number(sums.loss) / static_cast<double>(updates);
    stats.entropy = mean(sums.entropy);
    stats.kl_old = mean(sums.kl_old);
    stats.kl_start = mean(sums.kl_start);
    stats.clip_fraction = mean(sums.clipped);
    if (compared > 0) stats.mismatch = number(sums.mismatch) / static_cast<double>(compared);
    stats.seconds = watch.seconds();
    return stats;
  }

  PolicyTokens policy_tokens(const PolicyBatch& batch, const std::vector<size_t>& indices,
                             const std::vector<std::vector<float>>& here, const at::Tensor& logp, double sequences,
                             double tokens, const MicroBatch& micro) const {
    const PolicyOptions& o = options_.policy;
    std::vector<float> old, advantage, weight, kl_weight;
    for (const size_t i : indices) {
      const PolicySequence& s = batch.sequences[i];
      const auto length = static_cast<double>(s.answer.size());
      double w = 1 / tokens;
      if (o.norm == LossNorm::kSequenceMean) w = 1 / (sequences * length);
      if (o.norm == LossNorm::kConstant) w = 1 / (sequences * static_cast<double>(o.constant_length));
      for (size_t t = 0; t < s.answer.size(); ++t) {
        double importance = 1;
        if (!here.empty())
          importance = std::min(std::exp(static_cast<double>(here[i][t]) - static_cast<double>(s.old_logprobs[t])),
                                o.importance_cap);
        old.push_back(here.empty() ? s.old_logprobs[t] : here[i][t]);
        advantage.push_back(static_cast<float>(s.advantage));
        weight.push_back(static_cast<float>(w * importance));
        kl_weight.push_back(static_cast<float>(w));
      }
    }
    PolicyTokens out{logp, upload(old), upload(advantage), upload(weight), upload(kl_weight), {}};
    if (start_) {
      const at::NoGradGuard no_grad;
      out.start_logp = forward(*start_, micro, o.temperature, false).logp;
    }
    return out;
  }

  TrainerOptions options_;
  std::shared_ptr<lm::Model> model_, start_;
  std::shared_ptr<const lm::Tokenizer> tokenizer_;
  std::shared_ptr<lm::Engine> engine_;
  at::ScalarType dtype_;
  AdamW adam_;
  int64_t step_ = 0;
};

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::open(const TrainerOptions& options) {
  KZ_TRY(check_options(options));
  // cuBLAS reads this when it starts, so it is set before the device is opened.
  if (options.deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  KZ_ASSIGN(const at::Device device, lm::open_device(options.device));
  if (device.is_cuda()) at::globalContext().setDeterministicAlgorithms(options.deterministic, /*warn_only=*/true);
  KZ_ASSIGN(const at::ScalarType dtype, lm::compute_dtype(options.dtype, device));
  KZ_ASSIGN(auto tokenizer, lm::Tokenizer::load(options.model));
  KZ_ASSIGN(const lm::ModelConfig config, lm::load_model_config(options.model));
  KZ_TRY(lm::check_vocabulary(config, *tokenizer, options.model.string()));
  std::error_code ignored;
  const bool weights = fs::exists(options.model / "model.safetensors", ignored) ||
                       fs::exists(options.model / "model.safetensors.index.json", ignored);
  const auto make = [&]() -> Result<std::shared_ptr<lm::Model>> {
    if (weights) return lm::Model::load(options.model, device);
    return lm::Model::random(config, options.seed, device);
  };
  KZ_ASSIGN(auto model, make());
  std::shared_ptr<lm::Model> start;
  if (options.policy.kl > 0) {
    KZ_ASSIGN(start, make());
  }
  lm::EngineOptions engine_options = options.engine;
  engine_options.device = options.device;
  engine_options.dtype = options.dtype;
  KZ_ASSIGN(auto engine, lm::make_engine(model, tokenizer, engine_options));
  return std::make_unique<LocalTrainer>(options, std::move(model), std::move(start), std::move(tokenizer),
                                        std::move(engine), dtype);
}

}  // namespace kz::train
