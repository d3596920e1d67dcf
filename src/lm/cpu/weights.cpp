#include "lm/cpu/weights.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace kz::lm::cpu {

namespace {

constexpr int64_t kAlign = 16;  // floats: one cache line
int64_t aligned(int64_t floats) { return (floats + kAlign - 1) / kAlign * kAlign; }
int64_t whole_panels(int64_t n) {
  const int64_t nr = kernels().nr;
  return (n + nr - 1) / nr * nr;
}

}  // namespace

void PackedModel::Free::operator()(float* p) const { std::free(p); }

float* PackedModel::take(int64_t floats) {
  float* p = next_;
  next_ += aligned(floats);
  return p;
}

const float* PackedModel::copy(const float* from, int64_t n, int64_t room) {
  float* to = take(room);
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  std::memset(to + n, 0, static_cast<size_t>(room - n) * sizeof(float));
  return to;
}

Panels PackedModel::pack(const float* matrix, const float* bias, int64_t n, int64_t k) {
  const int64_t nr = kernels().nr;
  float* data = take(whole_panels(n) * k);
  for (int64_t panel = 0; panel < n; panel += nr) {
    float* to = data + panel * k;
    for (int64_t i = 0; i < nr; ++i) {
      const float* row = matrix + (panel + i) * k;
      for (int64_t j = 0; j < k; ++j) to[j * nr + i] = panel + i < n ? row[j] : 0.0f;
    }
  }
  return {data, bias != nullptr ? copy(bias, n, whole_panels(n)) : nullptr, n, k};
}

PackedModel::PackedModel(const ModelConfig& c, const RawWeights& raw, std::shared_ptr<const RopeTable> table)
    : config(c), rope(std::move(table)) {
  const int64_t d = c.hidden, q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim, f = c.intermediate;
  int64_t floats =
      2 * aligned(d) + aligned(whole_panels(c.vocab) * d) + (raw.head != nullptr ? aligned(c.vocab * d) : 0);
  floats += c.layers * (2 * aligned(d) + aligned(whole_panels(q + 2 * kv) * d) + aligned(whole_panels(q + 2 * kv)) +
                        aligned(whole_panels(d) * q) + aligned(whole_panels(2 * f) * d) + aligned(whole_panels(d) * f));
  storage_.reset(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(floats) * sizeof(float))));
  if (!storage_) throw std::bad_alloc();
  next_ = storage_.get();
  for (const RawLayer& l : raw.layers) {
    layers.push_back({copy(l.norm1, d, d), copy(l.norm2, d, d), pack(l.qkv, l.qkv_bias, q + 2 * kv, d),
                      pack(l.out, nullptr, d, q), pack(l.gate_up, nullptr, 2 * f, d), pack(l.down, nullptr, d, f)});
  }
  norm = copy(raw.norm, d, d);
  head = pack(raw.head != nullptr ? raw.head : raw.embedding, nullptr, c.vocab, d);
  if (raw.head != nullptr) embedding_ = copy(raw.embedding, c.vocab * d, c.vocab * d);
}

void PackedModel::embed(int32_t token, float* out) const {
  const int64_t d = config.hidden;
  if (embedding_ != nullptr) {
    std::memcpy(out, embedding_ + token * d, static_cast<size_t>(d) * sizeof(float));
    return;
  }
  const int64_t nr = kernels().nr;
  const float* panel = head.data + token / nr * nr * d + token % nr;
  for (int64_t j = 0; j < d; ++j) out[j] = panel[j * nr];
}

}  // namespace kz::lm::cpu
