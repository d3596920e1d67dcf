#include "train/loss.h"

#include <algorithm>

namespace kz::train {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

int64_t chunk_rows(const at::Tensor& hidden, int64_t vocab) {
  const int64_t elements = hidden.is_cuda() ? int64_t{1} << 27 : int64_t{1} << 19;  // of one chunk of logits
  return std::max<int64_t>(1, elements / vocab);
}

at::Tensor logits_of(const at::Tensor& hidden, const at::Tensor& head, double temperature) {
  at::Tensor logits = at::linear(hidden, head).to(at::kFloat);
  return temperature == 1.0 ? logits : logits / temperature;
}

// The gradient is recomputed from the hidden states: keeping softmax would keep [n, V].
struct ChunkedLogProbs : torch::autograd::Function<ChunkedLogProbs> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& hidden, const at::Tensor& head,
                               const at::Tensor& targets, double temperature, bool want_entropy) {
    const int64_t n = hidden.size(0), step = chunk_rows(hidden, head.size(0));
    const at::Tensor weight = head.to(hidden.scalar_type());
    const auto floats = hidden.options().dtype(at::kFloat);
    at::Tensor logp = at::empty({n}, floats), entropy = want_entropy ? at::empty({n}, floats) : at::Tensor();
    for (int64_t i = 0; i < n; i += step) {
      const int64_t m = std::min(step, n - i);
      const at::Tensor logs = at::log_softmax(logits_of(hidden.narrow(0, i, m), weight, temperature), -1);
      logp.narrow(0, i, m).copy_(logs.gather(1, targets.narrow(0, i, m).unsqueeze(1)).squeeze(1));
      if (want_entropy) entropy.narrow(0, i, m).copy_((logs.exp() * logs).sum(1).neg_());
    }
    ctx->save_for_backward({hidden, head, targets});
    ctx->saved_data["temperature"] = temperature;
    if (!want_entropy) return {logp};
    ctx->mark_non_differentiable({entropy});
    return {logp, entropy};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &hidden = saved[0], &head = saved[1], &targets = saved[2];
    const double temperature = ctx->saved_data["temperature"].toDouble();
    const int64_t n = hidden.size(0), step = chunk_rows(hidden, head.size(0));
    const at::Tensor weight = head.to(hidden.scalar_type()), grad = grads[0] / temperature;
    at::Tensor d_hidden = at::empty_like(hidden), d_head = at::zeros_like(head);
    for (int64_t i = 0; i < n; i += step) {
      const int64_t m = std::min(step, n - i);
      const at::Tensor h = hidden.narrow(0, i, m), g = grad.narrow(0, i, m).unsqueeze(1);
      at::Tensor d =
          at::softmax(logits_of(h, weight, temperature), -1).mul_(-g);  // d logp / d logits = onehot - softmax
      // One element a row; index_add_ on the flat view is the form that has a deterministic kernel on CUDA.
      const at::Tensor flat = at::arange(m, targets.options()) * head.size(0) + targets.narrow(0, i, m);
      d.view({-1}).index_add_(0, flat, g.squeeze(1));
      d = d.to(hidden.scalar_type());
      d_hidden.narrow(0, i, m).copy_(at::mm(d, weight));
      d_head.add_(at::mm(d.t(), h));
    }
    return {d_hidden, d_head, {}, {}, {}};
  }
};

at::Tensor k3(const at::Tensor& log_ratio) { return log_ratio.exp() - log_ratio - 1; }

}  // namespace

TokenLogProbs token_logprobs(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets,
                             double temperature, bool entropy) {
  const variable_list out = ChunkedLogProbs::apply(hidden, head, targets, temperature, entropy);
  return {out[0], entropy ? out[1] : at::Tensor()};
}

PolicyLoss policy_loss(const PolicyTokens& t, const PolicyOptions& options) {
  // A ratio beyond e^20 says nothing that its sign does not, and would be infinite later.
  const at::Tensor log_ratio = at::clamp(t.logp - t.old_logp, -20.0, 20.0);
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor plain = ratio * t.advantage;
  const at::Tensor bounded = at::clamp(ratio, 1.0 - options.clip_low, 1.0 + options.clip_high) * t.advantage;
  PolicyLoss out;
  out.loss = (at::minimum(plain, bounded) * t.weight).sum().neg();
  out.clipped = (bounded < plain).to(at::kFloat);
  out.kl_old = k3(log_ratio.detach());
  if (t.start_logp.defined()) {
    const at::Tensor kl = k3(at::clamp(t.start_logp - t.logp, -20.0, 20.0));
    out.kl_start = kl.detach();
    if (options.kl > 0) out.loss = out.loss + options.kl * (kl * t.kl_weight).sum();
  }
  return out;
}

}  // namespace kz::train
