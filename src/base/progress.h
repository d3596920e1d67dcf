// A progress bar with rate and time left on a terminal; plain lines, at most one in ten seconds, in a log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kz {

std::string clock_text(double seconds);  // "3:05", "1h02m"

class Progress {
 public:
  Progress(std::string label, uint64_t total, bool quiet = false);
  ~Progress();
  void advance(uint64_t n = 1, const std::string& note = "");
  void finish(const std::string& note = "");

 private:
  void draw(bool last);
  std::string label_, note_;
  uint64_t total_, done_ = 0;
  bool quiet_, tty_, finished_ = false;
  std::chrono::steady_clock::time_point start_, drawn_;
};

}  // namespace kz
