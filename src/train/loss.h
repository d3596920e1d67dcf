// Log-probabilities in chunks, and the losses made of them. Torch is visible here.
#pragma once

#include "lm/torch.h"
#include "train/trainer.h"

namespace kz::train {

struct TokenLogProbs {
  at::Tensor logp;     // [n] fp32, with a gradient
  at::Tensor entropy;  // [n] fp32, without; undefined unless asked for
};

// Of `targets` [n] under softmax(hidden [n, D] head [V, D]^T / temperature). Logits exist for one chunk of rows at a
// time, in the backward pass too: never [n, V].
TokenLogProbs token_logprobs(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets,
                             double temperature, bool entropy);

// Everything a token needs in the clipped policy-gradient loss; all [n] fp32.
struct PolicyTokens {
  at::Tensor logp;      // with a gradient
  at::Tensor old_logp;  // of the policy that the ratio is against
  at::Tensor advantage;
  at::Tensor weight;      // of the token in the sum: LossNorm, times the truncated importance weight
  at::Tensor kl_weight;   // of the token in the KL term: LossNorm alone
  at::Tensor start_logp;  // of the frozen start; undefined: no KL term
};

struct PolicyLoss {
  at::Tensor loss;      // scalar, with a gradient
  at::Tensor clipped;   // [n] 1 where the clipped term was the smaller one
  at::Tensor kl_old;    // [n] k3 estimate of KL(old || policy)
  at::Tensor kl_start;  // [n] k3 estimate of KL(policy || start); undefined without
};

PolicyLoss policy_loss(const PolicyTokens& tokens, const PolicyOptions& options);

}  // namespace kz::train
