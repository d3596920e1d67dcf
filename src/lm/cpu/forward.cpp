#include "lm/cpu/forward.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

namespace kz::lm::cpu {

void PagePool::Free::operator()(float* p) const { std::free(p); }

PagePool::PagePool(const ModelConfig& c) : kv_heads_(c.kv_heads) {
  keys_floats_ = kPage * c.head_dim;
  head_floats_ = padded(keys_floats_ + kPage * padded(c.head_dim));
  page_floats_ = c.layers * c.kv_heads * head_floats_;
}

float* PagePool::take() {
  constexpr int64_t kSlab = 16;  // pages allocated at once
  if (free_.empty()) {
    const auto bytes = static_cast<size_t>(kSlab * page_floats_) * sizeof(float);
    auto* slab = static_cast<float*>(std::aligned_alloc(64, bytes));
    if (slab == nullptr) throw std::bad_alloc();
    // A block is read whole, so places not yet written must hold numbers: 0 * NaN would spread.
    std::memset(slab, 0, bytes);
    slabs_.emplace_back(slab);
    for (int64_t i = kSlab; i-- > 0;) free_.push_back(slab + i * page_floats_);
  }
  float* page = free_.back();
  free_.pop_back();
  return page;
}

void Forward::attention(std::span<const Row> rows, int64_t layer) {
  const ModelConfig& c = model_.config;
  const Kernels& k = kernels();
  const int64_t h = c.head_dim, q = c.heads * h, kv = c.kv_heads * h, width = q + 2 * kv, group = c.heads / c.kv_heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(h));
  for (size_t m = 0; m < rows.size(); ++m) {
    const Row& row = rows[m];
    float* head = qkv_.data() + static_cast<int64_t>(m) * width;
    const float* cos = model_.rope->cos.data() + row.position * (h / 2);
    const float* sin = model_.rope->sin.data() + row.position * (h / 2);
    for (int64_t i = 0; i < c.heads + c.kv_heads; ++i) k.rope(head + i * h, cos, sin, 1.0F, h, head + i * h);
    for (int64_t i = 0; i < q; ++i) head[i] *= scale;
    for (int64_t i = 0; i < c.kv_heads; ++i) {
      float* keys = row.page + pool_.keys_at(layer, i) + row.slot / kBlock * kBlock * h + row.slot % kBlock;
      for (int64_t d = 0; d < h; ++d) keys[d * kBlock] = head[q + i * h + d];
      std::memcpy(row.page + pool_.values_at(layer, i) + row.slot * padded(h), head + q + kv + i * h,
                  static_cast<size_t>(h) * sizeof(float));
    }
  }
  for (size_t m = 0; m < rows.size(); ++m) {
    const Row& row = rows[m];
    const auto room = static_cast<size_t>(group * (row.position + 1 + kPage));
    if (scores_.size() < room) scores_.resize(2 * room);
    for (int64_t i = 0; i < c.kv_heads; ++i) {
      refs_.clear();
      int64_t left = row.position + 1;
      for (size_t s = 0; s < row.spans.size() && left > 0; ++s) {
        const PageSpan& span = row.spans[s];
        const int64_t count = std::min(left, span.count);
        refs_.push_back({span.page + pool_.keys_at(layer, i), span.page + pool_.values_at(layer, i), count});
        left -= count;
      }
      k.attend(qkv_.data() + static_cast<int64_t>(m) * width + i * group * h, group, h, refs_.data(),
               static_cast<int64_t>(refs_.size()), scores_.data(),
               mixed_.data() + static_cast<int64_t>(m) * q + i * group * h);
    }
  }
}

void Forward::run(std::span<const Row> rows) {
  const ModelConfig& c = model_.config;
  const Kernels& k = kernels();
  const auto m = static_cast<int64_t>(rows.size());
  const int64_t d = c.hidden, q = c.heads * c.head_dim, width = q + 2 * c.kv_heads * c.head_dim, f = c.intermediate;
  const auto eps = static_cast<float>(c.rms_eps);
  const auto room = [&](std::vector<float>& v, int64_t n) {
    if (v.size() < static_cast<size_t>(m * n)) v.resize(static_cast<size_t>(m * n));
  };
  room(x_, d);
  room(normed_, d);
  room(qkv_, width);
  room(mixed_, q);
  room(gate_up_, 2 * f);
  room(active_, f);
  for (int64_t i = 0; i < m; ++i) model_.embed(rows[static_cast<size_t>(i)].token, x_.data() + i * d);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const PackedLayer& l = model_.layers[static_cast<size_t>(layer)];
    for (int64_t i = 0; i < m; ++i) k.rms_norm(x_.data() + i * d, l.norm1, eps, d, normed_.data() + i * d);
    k.gemm(normed_.data(), d, m, l.qkv, qkv_.data(), width, false);
    attention(rows, layer);
    k.gemm(mixed_.data(), q, m, l.out, x_.data(), d, true);
    for (int64_t i = 0; i < m; ++i) k.rms_norm(x_.data() + i * d, l.norm2, eps, d, normed_.data() + i * d);
    k.gemm(normed_.data(), d, m, l.gate_up, gate_up_.data(), 2 * f, false);
    for (int64_t i = 0; i < m; ++i)
      k.swiglu(gate_up_.data() + i * 2 * f, gate_up_.data() + i * 2 * f + f, f, active_.data() + i * f);
    k.gemm(active_.data(), f, m, l.down, x_.data(), d, true);
  }
  int64_t flagged = 0;
  for (int64_t i = 0; i < m; ++i) {
    if (rows[static_cast<size_t>(i)].logits)
      k.rms_norm(x_.data() + i * d, model_.norm, eps, d, normed_.data() + flagged++ * d);
  }
  if (flagged == 0) return;
  if (logits_.size() < static_cast<size_t>(flagged * c.vocab)) logits_.resize(static_cast<size_t>(flagged * c.vocab));
  k.gemm(normed_.data(), d, flagged, model_.head, logits_.data(), c.vocab, false);
}

}  // namespace kz::lm::cpu
