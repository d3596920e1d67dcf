#include "keck/judge/run_queue.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace kz::keck {

RunQueue::RunQueue(pid_t pid) {
  const std::string path = pid > 0 ? "/proc/" + std::to_string(pid) + "/schedstat" : "/proc/thread-self/schedstat";
  file_ = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

double RunQueue::delay_seconds() const {
  std::array<char, 96> text{};
  if (!file_ || ::pread(file_.get(), text.data(), text.size() - 1, 0) <= 0) return 0;
  unsigned long long running = 0, waiting = 0;
  if (std::sscanf(text.data(), "%llu %llu", &running, &waiting) != 2) return 0;
  return static_cast<double>(waiting) * 1e-9;
}

Pinned::Pinned(int cpu, std::initializer_list<pid_t> pids) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(cpu), &one);
  held_ = true;
  for (pid_t pid : pids) {
    Old old{pid, {}};
    if (::sched_getaffinity(pid, sizeof old.set, &old.set) != 0 || ::sched_setaffinity(pid, sizeof one, &one) != 0) {
      held_ = false;
      continue;
    }
    old_.push_back(old);
  }
}

Pinned::~Pinned() {
  for (const Old& old : old_) ::sched_setaffinity(old.pid, sizeof old.set, &old.set);
}

}  // namespace kz::keck
