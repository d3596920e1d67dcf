#include "base/random.h"

#include <sys/random.h>

#include <cmath>
#include <cstdlib>

#include "base/hash.h"

namespace kz {

uint64_t Rng::operator()() {
  uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

uint64_t Rng::below(uint64_t n) {
  // Rejection keeps it exactly uniform; the loop runs once in nearly every call.
  const uint64_t limit = max() - max() % n;
  uint64_t x = (*this)();
  while (x >= limit) x = (*this)();
  return x % n;
}

double Rng::uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

double Rng::normal() {
  double u = uniform();
  while (u <= 0) u = uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * uniform());
}

uint64_t derive_seed(uint64_t seed, std::string_view purpose, uint64_t index) {
  return Rng(xxhash64(purpose, seed) + 0x9E3779B97F4A7C15ULL * (index + 1))();
}

uint64_t secret_seed() {
  uint64_t seed = 0;
  // getrandom of 8 bytes can only fail where the kernel has no entropy source at all; then nothing secret can be made.
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) std::abort();
  return seed;
}

}  // namespace kz
