// Peak memory of this process and everything that it started, by sampling: proportional set size, so that pages shared
// by a zygote's children count once.
#pragma once

#include <atomic>
#include <thread>

namespace kz::app {

class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  double peak_mb() const { return static_cast<double>(peak_kb_.load()) / 1024; }

 private:
  void sample();
  std::atomic<long> peak_kb_{0};
  std::jthread thread_;
};

}  // namespace kz::app
