#include "lm/device_decode.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "lm/ops.h"

namespace kz::lm {

namespace {

// Tokens are read back once in so many steps: each reading waits for the device.
constexpr int64_t kReadEvery = 16;

struct Live {
  cpu::Finished result;
  size_t row = 0;  // of the batch
};

// Weights in the compute dtype, and the state of one batch of sequences.
class Batch {
 public:
  Batch(const Model& model, at::ScalarType dtype, const cpu::DecodeOptions& options)
      : model_(model), c_(model.config()), dtype_(dtype), options_(options) {
    const auto cast = [&](const at::Tensor& t) { return t.defined() ? t.to(dtype) : t; };
    for (const Layer& l : model.layers())
      layers_.push_back({l.norm1, cast(l.qkv), cast(l.qkv_bias), cast(l.out), l.norm2, cast(l.gate_up), cast(l.down)});
    head_ = cast(model.head());
    embedding_ = cast(model.embedding());
  }

  cpu::DecodeCounts run(const std::vector<cpu::Request>& requests, const std::function<bool(cpu::Finished)>& done,
                        bool& cancelled) {
    cpu::DecodeCounts counts;
    start(requests, counts);
    at::Tensor logits = prefill(requests);
    for (int64_t t = 0; t < new_tokens_ && !live_.empty(); ++t) {
      sample(logits, t);
      const bool last = t + 1 == new_tokens_;
      if (pending_tokens_.size() == kReadEvery || last) {
        read_back(done, last, cancelled, counts);
        if (cancelled || live_.empty()) break;
        compact();
      }
      if (!last) logits = decode(t);
    }
    return counts;
  }

 private:
  at::TensorOptions ints() const { return at::TensorOptions().dtype(at::kLong).device(model_.device()); }
  at::Tensor upload(const std::vector<int64_t>& v) const { return at::tensor(v, at::kLong).to(model_.device()); }

  void start(const std::vector<cpu::Request>& requests, cpu::DecodeCounts& counts) {
    std::vector<int64_t> owner, length;
    std::vector<uint64_t> seeds;
    prompt_ = 0;
    int64_t longest_left = 0;
    for (size_t r = 0; r < requests.size(); ++r) {
      const auto n = static_cast<int64_t>(requests[r].prompt.size());
      prompt_ = std::max(prompt_, n);
      longest_left = std::max(longest_left, c_.max_positions - n);
      counts.prefilled += static_cast<uint64_t>(n);
      for (size_t i = 0; i < requests[r].ids.size(); ++i) {
        Live live;
        live.result.id = requests[r].ids[i];
        live.row = owner.size();
        live_.push_back(std::move(live));
        owner.push_back(static_cast<int64_t>(r));
        length.push_back(n);
        seeds.push_back(requests[r].seeds[i]);
      }
    }
    new_tokens_ = std::min<int64_t>(options_.sampling.max_new_tokens, longest_left);
    owner_ = upload(owner);
    length_ = upload(length);
    lengths_ = length;
    // Sequence s draws the numbers that it would draw on the CPU, one a token.
    std::vector<float> uniform(seeds.size() * static_cast<size_t>(new_tokens_));
    for (size_t s = 0; s < seeds.size(); ++s) {
      Rng rng(derive_seed(seeds[s], "sample"));
      for (int64_t t = 0; t < new_tokens_; ++t)
        uniform[s * static_cast<size_t>(new_tokens_) + static_cast<size_t>(t)] = static_cast<float>(rng.uniform());
    }
    uniform_ =
        at::tensor(uniform, at::kFloat).view({static_cast<int64_t>(seeds.size()), new_tokens_}).to(model_.device());
  }

  at::Tensor prefill(const std::vector<cpu::Request>& requests) {
    const auto rows = static_cast<int64_t>(requests.size());
    at::Tensor ids = at::zeros({rows, prompt_}, at::kLong);
    for (int64_t r = 0; r < rows; ++r) {
      const auto& prompt = requests[static_cast<size_t>(r)].prompt;
      for (size_t i = 0; i < prompt.size(); ++i) ids[r].data_ptr<int64_t>()[i] = prompt[i];
    }
    ids = ids.to(model_.device());
    const int64_t q = c_.heads * c_.head_dim, kv = c_.kv_heads * c_.head_dim;
    const at::Tensor cos = model_.rope_cos().narrow(0, 0, prompt_), sin = model_.rope_sin().narrow(0, 0, prompt_);
    at::Tensor x = at::embedding(embedding_, ids);
    for (const Layer& l : layers_) {
      const at::Tensor qkv = at::linear(rms_norm(x, l.norm1, c_.rms_eps), l.qkv, l.qkv_bias);
      const at::Tensor qk =
          rotate(qkv.narrow(-1, 0, q + kv).view({rows, prompt_, c_.heads + c_.kv_heads, c_.head_dim}), cos, sin);
      const at::Tensor k = qk.narrow(2, c_.heads, c_.kv_heads),
                       v = qkv.narrow(-1, q + kv, kv).view({rows, prompt_, c_.kv_heads, c_.head_dim});
      const auto cache = [&](const at::Tensor& t) {  // [rows, P, K, h] -> [sequences, K, P + new, h]
        at::Tensor full = at::zeros({owner_.size(0), c_.kv_heads, prompt_ + new_tokens_, c_.head_dim}, t.options());
        full.narrow(2, 0, prompt_).copy_(t.transpose(1, 2).index_select(0, owner_));
        return full;
      };
      keys_.push_back(cache(k));
      values_.push_back(cache(v));
      x = x + at::linear(causal_attention(qk.narrow(2, 0, c_.heads), k, v), l.out);
      x = x + at::linear(swiglu(at::linear(rms_norm(x, l.norm2, c_.rms_eps), l.gate_up)), l.down);
    }
    // Places of the prompt's padding are never attended.
    const at::Tensor place = at::arange(prompt_ + new_tokens_, ints()).unsqueeze(0);
    const at::Tensor seen = at::logical_or(place < length_.unsqueeze(1), place >= prompt_);
    mask_ = at::zeros(seen.sizes(), x.options()).masked_fill_(at::logical_not(seen), -INFINITY);
    const at::Tensor last = x.index({owner_, length_ - 1});  // [sequences, D]
    return at::linear(rms_norm(last, model_.norm(), c_.rms_eps), head_);
  }

  at::Tensor decode(int64_t t) {
    const int64_t q = c_.heads * c_.head_dim, kv = c_.kv_heads * c_.head_dim, n = token_.size(0),
                  places = prompt_ + t + 1;
    const at::Tensor position = length_ + t;
    // One position a row: as a batch of one-token sequences, rotate() wants [T, h / 2], so rows stand in for positions.
    const at::Tensor cos = model_.rope_cos().index_select(0, position),
                     sin = model_.rope_sin().index_select(0, position);
    const at::Tensor mask = mask_.narrow(1, 0, places).unsqueeze(1).unsqueeze(1);
    const double scale = 1.0 / std::sqrt(static_cast<double>(c_.head_dim));
    at::Tensor x = at::embedding(embedding_, token_);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& l = layers_[i];
      const at::Tensor qkv = at::linear(rms_norm(x, l.norm1, c_.rms_eps), l.qkv, l.qkv_bias);
      const at::Tensor qk =
          rotate(qkv.narrow(-1, 0, q + kv).view({1, n, c_.heads + c_.kv_heads, c_.head_dim}), cos, sin).squeeze(0);
      keys_[i].select(2, places - 1).copy_(qk.narrow(1, c_.heads, c_.kv_heads));
      values_[i].select(2, places - 1).copy_(qkv.narrow(-1, q + kv, kv).view({n, c_.kv_heads, c_.head_dim}));
      const at::Tensor query =
          qk.narrow(1, 0, c_.heads).reshape({n, c_.kv_heads, c_.heads / c_.kv_heads, c_.head_dim}) * scale;
      const at::Tensor scores = at::matmul(query, keys_[i].narrow(2, 0, places).transpose(-1, -2)) + mask;
      const at::Tensor mixed =
          at::matmul(at::softmax(scores, -1, at::kFloat).to(dtype_), values_[i].narrow(2, 0, places));
      x = x + at::linear(mixed.reshape({n, q}), l.out);
      x = x + at::linear(swiglu(at::linear(rms_norm(x, l.norm2, c_.rms_eps), l.gate_up)), l.down);
    }
    return at::linear(rms_norm(x, model_.norm(), c_.rms_eps), head_);
  }

  // The first place at which the running sum of `weights` [N, V] exceeds u [N, 1] times the total. Sums of blocks
  // first, then within one block, and by products with a triangle: torch's cumsum on CUDA adds in no fixed order.
  static at::Tensor draw(const at::Tensor& weights, const at::Tensor& u) {
    constexpr int64_t kWide = 64;
    const int64_t n = weights.size(0), blocks = (weights.size(1) + kWide - 1) / kWide;
    const at::Tensor w = at::constant_pad_nd(weights, {0, blocks * kWide - weights.size(1)}).view({n, blocks, kWide});
    const auto running = [](const at::Tensor& x) {
      return at::mm(x, at::triu(at::ones({x.size(1), x.size(1)}, x.options())));
    };
    const at::Tensor sums = w.sum(-1), edges = running(sums);
    const at::Tensor target = u * edges.narrow(1, blocks - 1, 1);
    // Rounding may run past the last that has weight: there it ends.
    const auto first_above = [](const at::Tensor& edge, const at::Tensor& goal, const at::Tensor& mass) {
      const at::Tensor last = (at::arange(mass.size(1), mass.options().dtype(at::kLong)) * (mass > 0)).amax(-1, true);
      return at::minimum((edge <= goal).sum(-1, /*keepdim=*/true), last);
    };
    const at::Tensor block = first_above(edges, target, sums);
    const at::Tensor before = edges.gather(1, block) - sums.gather(1, block);
    const at::Tensor inside = w.gather(1, block.unsqueeze(-1).expand({n, 1, kWide})).squeeze(1);
    const at::Tensor place = first_above(running(inside) + before, target, inside);
    return (block * kWide + place).squeeze(1);
  }

  // Picks a token a row on the device.
  void sample(const at::Tensor& logits, int64_t t) {
    const Sampling& s = options_.sampling;
    const bool greedy = s.temperature <= 0;
    const at::Tensor logp = at::log_softmax(logits.to(at::kFloat) / (greedy ? 1.0 : s.temperature), -1);
    if (greedy) {
      token_ = at::argmax(logp, -1);
    } else {
      at::Tensor weights = at::exp(logp);
      if (s.top_k > 0 && s.top_k < c_.vocab) {
        const at::Tensor least = std::get<0>(at::topk(weights, s.top_k, -1)).narrow(-1, s.top_k - 1, 1);
        weights = at::where(weights >= least, weights, at::zeros_like(weights));
      }
      if (s.top_p < 1.0) {
        const auto [sorted, order] = at::sort(weights, /*stable=*/true, -1, /*descending=*/true);
        const at::Tensor before = at::cumsum(sorted, -1) - sorted;
        const at::Tensor kept = at::where(before < s.top_p * sorted.sum(-1, true), sorted, at::zeros_like(sorted));
        weights = at::zeros_like(weights).scatter_(-1, order, kept);
      }
      token_ = draw(weights, uniform_.narrow(1, t, 1));
    }
    pending_tokens_.push_back(token_);
    pending_logprobs_.push_back(logp.gather(-1, token_.unsqueeze(-1)).squeeze(-1));
  }

  void read_back(const std::function<bool(cpu::Finished)>& done, bool last, bool& cancelled,
                 cpu::DecodeCounts& counts) {
    const at::Tensor tokens = at::stack(pending_tokens_, 1).cpu(), logprobs = at::stack(pending_logprobs_, 1).cpu();
    const int64_t steps = tokens.size(1);
    pending_tokens_.clear();
    pending_logprobs_.clear();
    std::vector<Live> kept;
    for (Live& live : live_) {
      const int64_t* ids = tokens.const_data_ptr<int64_t>() + static_cast<int64_t>(live.row) * steps;
      const float* logs = logprobs.const_data_ptr<float>() + static_cast<int64_t>(live.row) * steps;
      cpu::Finished& r = live.result;
      bool ended = last;
      const int64_t room = c_.max_positions - lengths_[live.row];
      for (int64_t i = 0; i < steps; ++i) {
        r.tokens.push_back(static_cast<int32_t>(ids[i]));
        r.logprobs.push_back(logs[i]);
        ++counts.sampled;
        r.stopped = std::find(c_.eos.begin(), c_.eos.end(), r.tokens.back()) != c_.eos.end() ||
                    (options_.stops && options_.stops(r.tokens));
        if (r.stopped || static_cast<int64_t>(r.tokens.size()) == room) {
          ended = true;
          break;
        }
      }
      if (!ended) {
        kept.push_back(std::move(live));
      } else if (!cancelled) {
        cancelled = !done(std::move(r));
      }
    }
    live_ = std::move(kept);
  }

  // Drops rows that have ended, once they are a quarter: copying the cache costs as much as some steps.
  void compact() {
    if (live_.size() * 4 > static_cast<size_t>(token_.size(0)) * 3) return;
    std::vector<int64_t> rows;
    std::vector<int64_t> lengths;
    for (Live& live : live_) {
      rows.push_back(static_cast<int64_t>(live.row));
      lengths.push_back(lengths_[live.row]);
      live.row = rows.size() - 1;
    }
    const at::Tensor index = upload(rows);
    for (at::Tensor* t : {&token_, &length_, &mask_, &uniform_}) *t = t->index_select(0, index);
    for (at::Tensor& t : keys_) t = t.index_select(0, index);
    for (at::Tensor& t : values_) t = t.index_select(0, index);
    lengths_ = std::move(lengths);
  }

  const Model& model_;
  const ModelConfig& c_;
  const at::ScalarType dtype_;
  const cpu::DecodeOptions& options_;
  std::vector<Layer> layers_;
  at::Tensor head_, embedding_;
  int64_t prompt_ = 0, new_tokens_ = 0;
  std::vector<Live> live_;
  std::vector<int64_t> lengths_;
  at::Tensor owner_, length_, uniform_, mask_, token_;
  std::vector<at::Tensor> keys_, values_, pending_tokens_, pending_logprobs_;
};

}  // namespace

cpu::DecodeCounts device_decode(const Model& model, at::ScalarType dtype, std::vector<cpu::Request> requests,
                                const cpu::DecodeOptions& options, const std::function<bool(cpu::Finished)>& done) {
  const c10::InferenceMode inference;
  cpu::DecodeCounts counts;
  bool cancelled = false;
  // Waves of at most `slots` sequences, prompts of like length together so that little is padding.
  std::stable_sort(requests.begin(), requests.end(),
                   [](const auto& a, const auto& b) { return a.prompt.size() < b.prompt.size(); });
  std::vector<cpu::Request> wave;
  size_t sequences = 0;
  const auto flush = [&] {
    if (wave.empty() || cancelled) return;
    const cpu::DecodeCounts c = Batch(model, dtype, options).run(wave, done, cancelled);
    counts.prefilled += c.prefilled;
    counts.sampled += c.sampled;
    wave.clear();
    sequences = 0;
  };
  for (cpu::Request& r : requests) {
    if (sequences + r.ids.size() > static_cast<size_t>(options.slots)) flush();
    sequences += r.ids.size();
    wave.push_back(std::move(r));
  }
  flush();
  return counts;
}

}  // namespace kz::lm
