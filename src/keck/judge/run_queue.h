// What disturbs a reading: time spent runnable but not running, and work done while it was not one's turn.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <initializer_list>
#include <vector>

#include "base/files.h"

namespace kz::keck {

// Run-queue delay of a process's first thread so far, from /proc/PID/schedstat.
class RunQueue {
 public:
  explicit RunQueue(pid_t pid);  // 0: the calling thread
  double delay_seconds() const;  // 0 where the kernel does not tell

 private:
  Fd file_;
};

// Puts threads first in their queues, and on one core if told, and back when it goes. Without permission nothing
// happens.
class Undisturbed {
 public:
  Undisturbed(int cpu, std::initializer_list<pid_t> pids);  // 0: the calling thread; cpu -1: any core
  ~Undisturbed();
  Undisturbed(const Undisturbed&) = delete;

 private:
  struct Old {
    pid_t pid;
    cpu_set_t set;
    int priority;
  };
  std::vector<Old> old_;
};

}  // namespace kz::keck
