#include "lm/rope.h"

#include <cmath>

namespace kz::lm {

RopeTable::RopeTable(int64_t positions, int64_t head_dim, double theta) {
  const int64_t half = head_dim / 2;
  cos.reserve(static_cast<size_t>(positions * half));
  sin.reserve(static_cast<size_t>(positions * half));
  std::vector<float> frequency;
  for (int64_t i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    frequency.push_back(1.0f / std::pow(static_cast<float>(theta), exponent));
  }
  for (int64_t p = 0; p < positions; ++p) {
    for (const float f : frequency) {
      const float angle = static_cast<float>(p) * f;
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
  }
}

}  // namespace kz::lm
