#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kz::train {

double learning_rate(const OptimizerOptions& o, int64_t step) {
  if (step < o.warmup_steps) return o.lr * static_cast<double>(step + 1) / static_cast<double>(o.warmup_steps);
  if (o.schedule == "constant" || o.total_steps <= o.warmup_steps) return o.lr;
  const double along =
      std::min(1.0, static_cast<double>(step - o.warmup_steps) / static_cast<double>(o.total_steps - o.warmup_steps));
  const double left = o.schedule == "cosine" ? 0.5 * (1 + std::cos(std::numbers::pi * along)) : 1 - along;
  return o.lr * (o.min_lr_ratio + (1 - o.min_lr_ratio) * left);
}

AdamW::AdamW(std::vector<lm::NamedTensor> parameters, const OptimizerOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  const at::NoGradGuard no_grad;
  steps_ = at::zeros({}, parameters_[0].tensor.options().requires_grad(false));
  for (const lm::NamedTensor& p : parameters_) {
    m_.push_back(at::zeros_like(p.tensor));
    v_.push_back(at::zeros_like(p.tensor));
    Group& g = groups_[p.tensor.dim() > 1 ? 0 : 1];
    g.parameters.push_back(p.tensor);
    g.m.push_back(m_.back());
    g.v.push_back(v_.back());
    g.steps.push_back(steps_);  // one count for all
  }
}

at::Tensor AdamW::step(double lr) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const lm::NamedTensor& p : parameters_)
    gradients.push_back(p.tensor.grad().defined() ? p.tensor.grad() : at::zeros_like(p.tensor));
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
  const at::Tensor broken = at::logical_not(at::isfinite(norm)).to(at::kFloat);
  // The fused kernel divides gradients by this: 1 unless the norm is above the clip.
  const at::Tensor divisor =
      options_.grad_clip > 0 ? at::clamp_min(norm / options_.grad_clip, 1.0) : at::ones_like(norm);
  steps_.add_(1 - broken);
  std::vector<at::Tensor> split[2];
  for (size_t i = 0; i < parameters_.size(); ++i)
    split[parameters_[i].tensor.dim() > 1 ? 0 : 1].push_back(gradients[i]);
  for (size_t k = 0; k < 2; ++k) {
    Group& g = groups_[k];
    if (g.parameters.empty()) continue;
    at::_fused_adamw_(g.parameters, split[k], g.m, g.v, {}, g.steps, lr, options_.beta1, options_.beta2,
                      k == 0 ? options_.weight_decay : 0.0, options_.eps, /*amsgrad=*/false, /*maximize=*/false,
                      divisor, broken);
  }
  clear_gradients();
  return norm;
}

void AdamW::clear_gradients() {
  for (lm::NamedTensor& p : parameters_) p.tensor.mutable_grad().reset();
}

std::vector<lm::NamedTensor> AdamW::state() const {
  std::vector<lm::NamedTensor> out;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    out.push_back({"m." + parameters_[i].name, m_[i]});
    out.push_back({"v." + parameters_[i].name, v_[i]});
  }
  out.push_back({"t", steps_});
  return out;
}

}  // namespace kz::train
