// Every instruction set that this machine has, against sums in double.
#include "lm/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace kz::lm::cpu {
namespace {

std::vector<float> random(int64_t n, uint64_t seed, double scale = 1) {
  Rng rng(seed);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = static_cast<float>(scale * rng.normal());
  return v;
}

std::vector<const Kernels*> available() {
  std::vector<const Kernels*> out{&kernels_base()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out.push_back(&kernels_avx2());
  if (__builtin_cpu_supports("avx512f")) out.push_back(&kernels_avx512());
#endif
  return out;
}

class Kernel : public testing::TestWithParam<const Kernels*> {};

std::vector<float> pack(const std::vector<float>& w, int64_t n, int64_t k, int64_t nr) {
  std::vector<float> out(static_cast<size_t>((n + nr - 1) / nr * nr * k), 0.0F);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < k; ++j)
      out[static_cast<size_t>(i / nr * nr * k + j * nr + i % nr)] = w[static_cast<size_t>(i * k + j)];
  return out;
}

TEST_P(Kernel, GemmIsTheProductAndARowIsTheSameBitsInEveryBatch) {
  const Kernels& kernel = *GetParam();
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1}, {5, 33, 7}, {29, 70, 48}, {13, 16, 129}}) {
    const auto x = random(m * k, 1), w = random(n * k, 2), bias = random((n + 64), 3), start = random(m * n, 4);
    const auto packed = pack(w, n, k, kernel.nr);
    const Panels panels{packed.data(), bias.data(), n, k};
    std::vector<float> y(static_cast<size_t>(m * n)), added = start;
    kernel.gemm(x.data(), k, m, panels, y.data(), n, false);
    kernel.gemm(x.data(), k, m, panels, added.data(), n, true);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < k; ++c)
          sum += static_cast<double>(x[static_cast<size_t>(i * k + c)]) *
                 static_cast<double>(w[static_cast<size_t>(j * k + c)]);
        const auto at = static_cast<size_t>(i * n + j);
        EXPECT_NEAR(y[at], sum + static_cast<double>(bias[static_cast<size_t>(j)]), 1e-4);
        EXPECT_NEAR(added[at], sum + static_cast<double>(start[at]), 1e-4);
      }
      std::vector<float> alone(static_cast<size_t>(n));
      kernel.gemm(x.data() + i * k, k, 1, panels, alone.data(), n, false);
      for (int64_t j = 0; j < n; ++j) EXPECT_EQ(alone[static_cast<size_t>(j)], y[static_cast<size_t>(i * n + j)]);
    }
  }
}

TEST_P(Kernel, AttentionOverPagesIsSoftmaxOfTheScores) {
  const Kernels& kernel = *GetParam();
  for (const int64_t h : {4, 20, 32, 64}) {
    for (const int64_t group : {1, 2, 3, 7}) {
      const std::vector<int64_t> counts{32, 5, 32, 1,
                                        19};  // a prompt's last page is part full, then the sequence's own
      const auto q = random(group * h, 5);
      std::vector<std::vector<float>> keys, values;
      std::vector<PageRef> pages;
      for (size_t p = 0; p < counts.size(); ++p) {
        keys.push_back(random(kPage * h, 10 + p));
        values.push_back(random(kPage * padded(h), 20 + p));
      }
      for (size_t p = 0; p < counts.size(); ++p) pages.push_back({keys[p].data(), values[p].data(), counts[p]});
      std::vector<float> scores(static_cast<size_t>(group * (89 + kPage))), out(static_cast<size_t>(group * h));
      kernel.attend(q.data(), group, h, pages.data(), static_cast<int64_t>(pages.size()), scores.data(), out.data());
      for (int64_t g = 0; g < group; ++g) {
        std::vector<double> weight, expected(static_cast<size_t>(h), 0.0);
        double total = 0;
        for (size_t p = 0; p < counts.size(); ++p) {
          for (int64_t t = 0; t < counts[p]; ++t) {
            double s = 0;
            for (int64_t d = 0; d < h; ++d)
              s += static_cast<double>(q[static_cast<size_t>(g * h + d)]) *
                   static_cast<double>(keys[p][static_cast<size_t>((t / kBlock * h + d) * kBlock + t % kBlock)]);
            weight.push_back(std::exp(s));
            total += weight.back();
            for (int64_t d = 0; d < h; ++d)
              expected[static_cast<size_t>(d)] +=
                  weight.back() * static_cast<double>(values[p][static_cast<size_t>(t * padded(h) + d)]);
          }
        }
        for (int64_t d = 0; d < h; ++d)
          EXPECT_NEAR(out[static_cast<size_t>(g * h + d)], expected[static_cast<size_t>(d)] / total, 2e-5);
      }
    }
  }
}

TEST_P(Kernel, ExpSumOverTheWholeRange) {
  const Kernels& kernel = *GetParam();
  for (const int64_t n : {1, 7, 16, 37}) {
    auto x = random(n, 6, 30);
    x[0] = -1000;
    std::vector<float> p(x.size());
    float max = 0;
    const float sum = kernel.exp_sum(x.data(), n, 0.5F, p.data(), &max);
    double total = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = std::exp(static_cast<double>(x[i]) * 0.5 - static_cast<double>(max));
      total += e;
      EXPECT_NEAR(p[i], e, 2e-7 + 1e-6 * e);
    }
    EXPECT_NEAR(sum, total, 1e-5);
    if (n > 1) {
      EXPECT_EQ(p[0], 0.0F);
    }
  }
}

TEST_P(Kernel, NormRopeAndSwigluWithTheirGradients) {
  const Kernels& kernel = *GetParam();
  for (const int64_t d : {2, 6, 24, 64, 70}) {
    const auto n = static_cast<size_t>(d);
    const auto x = random(d, 7), w = random(d, 8), dy = random(d, 9), up = random(d, 11, 2);
    const double eps = 1e-6;
    const auto norm = [&](const std::vector<double>& v, size_t i) {
      double sum = 0;
      for (const double a : v) sum += a * a;
      return v[i] / std::sqrt(sum / static_cast<double>(d) + eps) * static_cast<double>(w[i]);
    };
    const auto swiglu = [&](double g, double u) { return g / (1 + std::exp(-g)) * u; };
    std::vector<float> y(n), dx(n), dw(n, 0.5F), z(n), dg(n), du(n);
    kernel.rms_norm(x.data(), w.data(), 1e-6F, d, y.data());
    kernel.rms_norm_grad(x.data(), w.data(), dy.data(), 1e-6F, d, dx.data(), dw.data());
    kernel.swiglu(x.data(), up.data(), d, z.data());
    kernel.swiglu_grad(x.data(), up.data(), dy.data(), d, dg.data(), du.data());
    const std::vector<double> v(x.begin(), x.end());
    for (size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(y[i], norm(v, i), 1e-5);
      double slope = 0;
      for (size_t j = 0; j < n; ++j) {
        auto a = v, b = v;
        a[i] += 1e-4;
        b[i] -= 1e-4;
        slope += static_cast<double>(dy[j]) * (norm(a, j) - norm(b, j)) / 2e-4;
      }
      EXPECT_NEAR(dx[i], slope, 1e-4);
      EXPECT_NEAR(dw[i], 0.5 + static_cast<double>(dy[i]) * norm(v, i) / static_cast<double>(w[i]), 1e-4);
      const auto u = static_cast<double>(up[i]), g = static_cast<double>(dy[i]);
      EXPECT_NEAR(z[i], swiglu(v[i], u), 1e-5);
      EXPECT_NEAR(dg[i], g * (swiglu(v[i] + 1e-5, u) - swiglu(v[i] - 1e-5, u)) / 2e-5, 1e-4);
      EXPECT_NEAR(du[i], g * swiglu(v[i], 1), 1e-5);
    }
    std::vector<float> cos(n), sin(n), turned(n), back(n);
    for (size_t i = 0; i < n; ++i) {
      cos[i] = std::cos(static_cast<float>(i));
      sin[i] = std::sin(static_cast<float>(i));
    }
    kernel.rope(x.data(), cos.data(), sin.data(), 1, d, turned.data());
    kernel.rope(turned.data(), cos.data(), sin.data(), -1, d, back.data());
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(back[i], x[i], 1e-5);
    EXPECT_NEAR(turned[0], x[0] * cos[0] - x[n / 2] * sin[0], 1e-5);
    EXPECT_NEAR(turned[n / 2], x[n / 2] * cos[0] + x[0] * sin[0], 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Kernel, testing::ValuesIn(available()),
                         [](const auto& p) { return std::string(p.param->name); });

}  // namespace
}  // namespace kz::lm::cpu
