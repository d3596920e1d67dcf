// Losses against a case worked by hand and finite differences; the optimiser against AdamW written out.
#include "train/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/optimizer.h"

namespace kz::train {
namespace {

at::Tensor row(std::initializer_list<float> v) { return at::tensor(std::vector<float>(v), at::kFloat); }

TEST(TokenLogProbs, ThreeTokensByHand) {
  // hidden = (1, 0) and (0, 2); head rows (1, 0), (0, 1), (0, 0): logits (1, 0, 0) and (0, 2, 0).
  const at::Tensor hidden = at::tensor({1.0F, 0.0F, 0.0F, 2.0F}).view({2, 2}).requires_grad_(true);
  const at::Tensor head = at::tensor({1.0F, 0.0F, 0.0F, 1.0F, 0.0F, 0.0F}).view({3, 2}).requires_grad_(true);
  const auto out = token_logprobs(hidden, head, at::tensor({int64_t{0}, int64_t{2}}), 1.0, true);
  const double z0 = std::exp(1.0) + 2, z1 = std::exp(2.0) + 2;
  EXPECT_NEAR(out.logp[0].item<double>(), 1 - std::log(z0), 1e-6);
  EXPECT_NEAR(out.logp[1].item<double>(), -std::log(z1), 1e-6);
  EXPECT_NEAR(out.entropy[0].item<double>(), std::log(z0) - std::exp(1.0) / z0, 1e-6);
  out.logp.sum().backward();
  // d logp0 / d hidden0 = head[0] - sum_v p_v head[v].
  EXPECT_NEAR(hidden.grad()[0][0].item<double>(), 1 - std::exp(1.0) / z0, 1e-6);
  EXPECT_NEAR(hidden.grad()[0][1].item<double>(), -1 / z0, 1e-6);
  // d / d head[1] = sum_n (onehot - p)[1] hidden_n = -1/z0 (1, 0) - e^2/z1 (0, 2).
  EXPECT_NEAR(head.grad()[1][0].item<double>(), -1 / z0, 1e-6);
  EXPECT_NEAR(head.grad()[1][1].item<double>(), -2 * std::exp(2.0) / z1, 1e-6);
}

// More rows than one chunk holds, against the log-probs of full logits.
TEST(TokenLogProbs, ChunksAreTheWhole) {
  at::manual_seed(1);
  const int64_t n = 700, vocab = 3000;  // a chunk of 2^19 logits is 174 rows
  const at::Tensor hidden = at::randn({n, 8}).requires_grad_(true), head = at::randn({vocab, 8}).requires_grad_(true);
  const at::Tensor targets = at::randint(vocab, {n}, at::kLong), weight = at::randn({n});
  const auto out = token_logprobs(hidden, head, targets, 0.7, true);
  (out.logp * weight).sum().backward();
  const at::Tensor dh = hidden.grad().clone(), dw = head.grad().clone();
  hidden.mutable_grad().reset();
  head.mutable_grad().reset();
  const at::Tensor logs = at::log_softmax(at::linear(hidden, head) / 0.7, -1);
  const at::Tensor expected = logs.gather(1, targets.unsqueeze(1)).squeeze(1);
  EXPECT_LT((expected - out.logp).abs().max().item<double>(), 1e-4);
  EXPECT_LT(((logs.exp() * logs).sum(1).neg() - out.entropy).abs().max().item<double>(), 1e-4);
  (expected * weight).sum().backward();
  EXPECT_LT((hidden.grad() - dh).abs().max().item<double>(), 1e-4);
  EXPECT_LT((head.grad() - dw).norm().item<double>(), 1e-4 * dw.norm().item<double>());
}

// Four tokens: ratio 1 and 2, advantage +1 and -1. clip 0.2 / 0.28.
TEST(PolicyLoss, ClippingByHand) {
  const at::Tensor logp = row({-1, -1, -1, -1}).requires_grad_(true);
  const float up = std::log(2.0F);
  const PolicyTokens t{logp,
                       row({-1, -1 - up, -1 - up, -1 + up}),
                       row({1, 1, -1, -1}),
                       row({.25F, .25F, .25F, .25F}),
                       row({.25F, .25F, .25F, .25F}),
                       {}};
  const auto out = policy_loss(t, {});
  // Ratios 1, 2, 2, 1/2. Terms: 1; min(2, 1.28) = 1.28; min(-2, -1.28) = -2; min(-.5, -.8) = -.8.
  EXPECT_NEAR(out.loss.item<double>(), -(1 + 1.28 - 2 - 0.8) / 4, 1e-6);
  EXPECT_NEAR(out.clipped.sum().item<double>(), 2, 0);
  out.loss.backward();
  EXPECT_NEAR(logp.grad()[0].item<double>(), -0.25, 1e-6);
  EXPECT_NEAR(logp.grad()[1].item<double>(), 0, 1e-6);    // clipped
  EXPECT_NEAR(logp.grad()[2].item<double>(), 0.5, 1e-6);  // a bad token that became likelier is not protected
  EXPECT_NEAR(logp.grad()[3].item<double>(), 0, 1e-6);
  const double r = 2;
  EXPECT_NEAR(out.kl_old[1].item<double>(), r - 1 - std::log(r), 1e-6);
}

TEST(PolicyLoss, KlToTheStartByHandAndByDifferences) {
  PolicyOptions o;
  o.kl = 0.5;
  const auto loss = [&](double l) {
    const at::Tensor logp = row({static_cast<float>(l)}).requires_grad_(true);
    const auto out = policy_loss({logp, row({-2}), row({0}), row({1}), row({1}), row({-1.5F})}, o);
    out.loss.backward();
    return std::pair{out.loss.item<double>(), logp.grad().item<double>()};
  };
  const double d = -1.5 + 2.0;  // log start - log policy
  EXPECT_NEAR(loss(-2).first, 0.5 * (std::exp(d) - d - 1), 1e-6);
  EXPECT_NEAR(loss(-2).second, (loss(-2 + 1e-2).first - loss(-2 - 1e-2).first) / 2e-2, 1e-3);
  EXPECT_NEAR(loss(-1.5).second, 0, 1e-6);
}

TEST(PolicyLoss, GradientsByDifferences) {
  at::manual_seed(2);
  const int64_t n = 12;
  const at::Tensor base = at::randn({n}) * 0.3 - 2, old = base + at::randn({n}) * 0.3, adv = at::randn({n}),
                   w = at::rand({n}), start = base + at::randn({n}) * 0.3;
  PolicyOptions o;
  o.kl = 0.1;
  const auto f = [&](const at::Tensor& logp) { return policy_loss({logp, old, adv, w, w, start}, o).loss; };
  const at::Tensor leaf = base.clone().requires_grad_(true);
  f(leaf).backward();
  for (int64_t i = 0; i < n; ++i) {
    at::Tensor a = base.clone(), b = base.clone();
    a[i] += 1e-3;
    b[i] -= 1e-3;
    const double ratio = std::exp((base[i] - old[i]).item<double>());
    if (std::abs(ratio - 0.8) < 0.01 || std::abs(ratio - 1.28) < 0.01) continue;  // at a corner there is no slope
    EXPECT_NEAR(leaf.grad()[i].item<double>(), (f(a) - f(b)).item<double>() / 2e-3, 2e-3);
  }
}

TEST(AdamW, IsAdamWWrittenOut) {
  OptimizerOptions o;
  o.weight_decay = 0.1;
  o.grad_clip = 1.5;
  const at::Tensor matrix = at::full({1, 2}, 0.5F).requires_grad_(true),
                   vector = at::full({1}, -0.5F).requires_grad_(true);
  AdamW adam({{"m", matrix}, {"v", vector}}, o);
  double p[3] = {0.5, 0.5, -0.5}, m[3] = {}, v[3] = {};
  for (int t = 1; t <= 4; ++t) {
    const double g[3] = {1.0 * t, -2.0, 0.5};
    matrix.mutable_grad() = at::tensor({static_cast<float>(g[0]), static_cast<float>(g[1])}).view({1, 2});
    vector.mutable_grad() = at::tensor({static_cast<float>(g[2])});
    const double norm = std::sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]), lr = 0.01 * t;
    EXPECT_NEAR(adam.step(lr).item<double>(), norm, 1e-5);
    for (int i = 0; i < 3; ++i) {
      const double clipped = g[i] / std::max(1.0, norm / 1.5);
      m[i] = 0.9 * m[i] + 0.1 * clipped;
      v[i] = 0.95 * v[i] + 0.05 * clipped * clipped;
      p[i] *= 1 - lr * (i < 2 ? 0.1 : 0.0);  // vectors do not decay
      p[i] -= lr * (m[i] / (1 - std::pow(0.9, t))) / (std::sqrt(v[i] / (1 - std::pow(0.95, t))) + 1e-8);
    }
    EXPECT_NEAR(matrix[0][0].item<double>(), p[0], 1e-5);
    EXPECT_NEAR(matrix[0][1].item<double>(), p[1], 1e-5);
    EXPECT_NEAR(vector[0].item<double>(), p[2], 1e-5);
  }
  const double before = vector[0].item<double>();
  matrix.mutable_grad() = at::full({1, 2}, NAN);
  EXPECT_TRUE(std::isnan(adam.step(0.1).item<double>()));  // changes nothing, and is not counted
  EXPECT_EQ(vector[0].item<double>(), before);
  EXPECT_EQ(adam.state().back().tensor.item<double>(), 4);
}

TEST(LearningRate, WarmsUpAndFalls) {
  OptimizerOptions o;
  o.lr = 1;
  o.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate(o, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(o, 3), 1);
  EXPECT_DOUBLE_EQ(learning_rate(o, 1000), 1);
  o.schedule = "cosine";
  o.total_steps = 104;
  EXPECT_DOUBLE_EQ(learning_rate(o, 54), 0.1 + 0.9 * 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(o, 104), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(o, 9999), 0.1);
  o.schedule = "linear";
  EXPECT_DOUBLE_EQ(learning_rate(o, 29), 0.1 + 0.9 * 0.75);
}

}  // namespace
}  // namespace kz::train
