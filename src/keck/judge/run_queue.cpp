#include "keck/judge/run_queue.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace kz::keck {
namespace {

constexpr int kFirst = -20;

}  // namespace

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

Undisturbed::Undisturbed(int cpu, std::initializer_list<pid_t> pids) {
  for (pid_t pid : pids) {
    const auto id = static_cast<id_t>(pid);
    Old old{pid, {}, ::getpriority(PRIO_PROCESS, id)};
    if (::sched_getaffinity(pid, sizeof old.set, &old.set) != 0) continue;
    ::setpriority(PRIO_PROCESS, id, kFirst);
    if (cpu >= 0 && cpu < CPU_SETSIZE) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<size_t>(cpu), &one);
      ::sched_setaffinity(pid, sizeof one, &one);
    }
    old_.push_back(old);
  }
}

Undisturbed::~Undisturbed() {
  for (const Old& old : old_) {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(old.pid), old.priority);
    ::sched_setaffinity(old.pid, sizeof old.set, &old.set);
  }
}

}  // namespace kz::keck
