#include "app/kernelzero/memory_watch.h"

#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/files.h"

namespace kz::app {
namespace {

// The parent of a process, from /proc/PID/stat; 0 when it is gone. The name in parentheses may hold anything.
int parent_of(const fs::path& folder) {
  std::ifstream in(folder / "stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  char state = 0;
  int parent = 0;
  return std::sscanf(text.c_str() + end + 1, " %c %d", &state, &parent) == 2 ? parent : 0;
}

// "Pss:  123 kB" of smaps_rollup; resident size where that may not be read.
long kilobytes(const fs::path& folder) {
  const auto find = [&](const char* file, const std::string& key) -> long {
    std::ifstream in(folder / file);
    for (std::string line; std::getline(in, line);) {
      if (line.rfind(key, 0) == 0) return std::atol(line.c_str() + key.size());
    }
    return -1;
  };
  const long pss = find("smaps_rollup", "Pss:");
  return pss >= 0 ? pss : std::max(0L, find("status", "VmRSS:"));
}

}  // namespace

MemoryWatch::MemoryWatch() {
  sample();
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, stop, std::chrono::seconds(3), [&] { return stop.stop_requested(); })) sample();
  });
}

MemoryWatch::~MemoryWatch() = default;

void MemoryWatch::sample() {
  std::map<int, int> parents;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator("/proc", ec)) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0) parents[pid] = parent_of(entry.path());
  }
  long total = 0;
  const int self = ::getpid();
  for (const auto& [pid, parent] : parents) {
    int at = pid;
    for (int depth = 0; depth < 64 && at > 1 && at != self; ++depth) {
      const auto up = parents.find(at);
      at = up == parents.end() ? 0 : up->second;
    }
    if (at == self) total += kilobytes("/proc/" + std::to_string(pid));
  }
  if (total > peak_kb_.load()) peak_kb_ = total;
}

}  // namespace kz::app
