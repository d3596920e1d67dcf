// Time. Wall time for people and stores, steady time for durations.
#pragma once

#include <chrono>
#include <string>

namespace kz {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
std::string utc_now();  // "2026-12-01T09:30:00.123Z"

// Seconds since it was made or last reset.
class Stopwatch {
 public:
  double seconds() const { return steady_seconds() - start_; }
  double lap() {
    const double s = seconds();
    start_ += s;
    return s;
  }

 private:
  double start_ = steady_seconds();
};

}  // namespace kz
