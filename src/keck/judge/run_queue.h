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

// Moves threads to one core and back when it goes. Without permission nothing happens.
class Pinned {
 public:
  Pinned(int cpu, std::initializer_list<pid_t> pids);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  bool held() const { return held_; }

 private:
  struct Old {
    pid_t pid;
    cpu_set_t set;
  };
  std::vector<Old> old_;
  bool held_ = false;
};

}  // namespace kz::keck
