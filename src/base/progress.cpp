#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kz {

std::string clock_text(double seconds) {
  const long s = std::lround(std::max(0.0, seconds));
  char text[32];
  if (s >= 3600)
    std::snprintf(text, sizeof text, "%ldh%02ldm", s / 3600, s / 60 % 60);
  else
    std::snprintf(text, sizeof text, "%ld:%02ld", s / 60, s % 60);
  return text;
}

Progress::Progress(std::string label, uint64_t total, bool quiet)
    : label_(std::move(label)),
      total_(total),
      quiet_(quiet),
      tty_(::isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      drawn_(start_) {}

Progress::~Progress() { finish(); }

void Progress::advance(uint64_t n, const std::string& note) {
  done_ += n;
  if (!note.empty()) note_ = note;
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> since = now - drawn_;
  if (since.count() >= (tty_ ? 0.1 : 10.0)) {
    drawn_ = now;
    draw(/*last=*/false);
  }
}

void Progress::finish(const std::string& note) {
  if (finished_) return;
  finished_ = true;
  if (!note.empty()) note_ = note;
  draw(/*last=*/true);
}

void Progress::draw(bool last) {
  if (quiet_) return;
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double rate = elapsed > 0 ? static_cast<double>(done_) / elapsed : 0;
  const double left = rate > 0 && total_ > done_ ? static_cast<double>(total_ - done_) / rate : 0;
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "%llu/%llu  %.1f/s  %s%s", static_cast<unsigned long long>(done_),
                static_cast<unsigned long long>(total_), rate, clock_text(elapsed).c_str(),
                last ? "" : (" left " + clock_text(left)).c_str());
  if (!tty_) {
    std::fprintf(stderr, "%s  %s  %s\n", label_.c_str(), numbers, note_.c_str());
    return;
  }
  constexpr int kWidth = 24;
  const double share = total_ > 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)) : 1.0;
  const int full = static_cast<int>(share * kWidth);
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < full ? "█" : "░";
  std::fprintf(stderr, "\r\033[K%s %s %s  %s%s", label_.c_str(), bar.c_str(), numbers, note_.c_str(), last ? "\n" : "");
  std::fflush(stderr);
}

}  // namespace kz
