#include "app/kernelzero/memory_watch.h"

#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/files.h"

namespace kz::app {
namespace {

// The parent of a process, from /proc/PID/stat; 0 when it is gone. The name in parentheses may hold anything. Files of
// a process that dies meanwhile fail in the middle of a read: read_file says so by a value, where a stream would throw.
int parent_of(const fs::path& folder) {
  const std::string text = read_file(folder / "stat").value_or("");
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  char state = 0;
  int parent = 0;
  return std::sscanf(text.c_str() + end + 1, " %c %d", &state, &parent) == 2 ? parent : 0;
}

// "Pss:  123 kB" of smaps_rollup; resident size where that may not be read.
long kilobytes(const fs::path& folder) {
  const auto find = [&](const char* file, const std::string& key) -> long {
    const std::string text = read_file(folder / file).value_or("");
    const size_t at = text.find("\n" + key);
    return at == std::string::npos ? -1 : std::atol(text.c_str() + at + 1 + key.size());
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
  for (fs::directory_iterator it("/proc", ec), end; !ec && it != end; it.increment(ec)) {
    const int pid = std::atoi(it->path().filename().c_str());
    if (pid > 0) parents[pid] = parent_of(it->path());
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
