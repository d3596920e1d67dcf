// Random numbers. One seed in the config drives everything that must repeat; secrets come from the kernel.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kz {

// SplitMix64: small, portable, the same stream on every machine. Satisfies UniformRandomBitGenerator.
class Rng {
 public:
  using result_type = uint64_t;
  explicit Rng(uint64_t seed) : state_(seed) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~0ULL; }
  uint64_t operator()();
  uint64_t below(uint64_t n);  // uniform in [0, n), n > 0
  double uniform();            // [0, 1)
  double normal();             // mean 0, standard deviation 1
  template <typename T>
  const T& pick(const std::vector<T>& v) {
    return v[below(v.size())];
  }
  template <typename T>
  void shuffle(std::vector<T>& v) {
    for (size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[below(i)]);
  }

 private:
  uint64_t state_;
};

// A seed for one named purpose, independent of every other name: derive_seed(run_seed, "coder/step", 12).
uint64_t derive_seed(uint64_t seed, std::string_view purpose, uint64_t index = 0);

uint64_t secret_seed();  // 64 bits from getrandom(2)

}  // namespace kz
