// Rotary positions: one table for every device, so that decode and training turn by the same angles.
#pragma once

#include <cstdint>
#include <vector>

namespace kz::lm {

// cos and sin of position * theta^(-2 i / head_dim), [positions, head_dim / 2] row-major, in fp32 as Hugging Face
// computes them.
struct RopeTable {
  RopeTable(int64_t positions, int64_t head_dim, double theta);
  std::vector<float> cos, sin;
};

}  // namespace kz::lm
