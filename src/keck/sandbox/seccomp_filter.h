// The seccomp deny-list, as BPF written by hand: it is compiled in microseconds, needs no library in the child, and its
// few argument checks are plain to read. A list of denials, not of permissions: libraries and drivers shift their
// calls.
#pragma once

#include <linux/filter.h>

#include <cstddef>

namespace kz::keck::sandbox {

struct FilterOptions {
  bool processes = true;        // fork and exec; threads are always allowed
  bool foreign_signals = true;  // false: signals, scheduling and limits of other pids are refused (no pid namespace)
  bool affinity = true;         // false: sched_setaffinity is refused: timing decides on which cores a child runs
  int self = 0;                 // own pid, for foreign_signals = false; 0: no signal to anyone by pid
};

inline constexpr size_t kFilterCapacity = 400;

// Writes the program and returns its length; 0 when it would not fit.
size_t build_filter(const FilterOptions& options, sock_filter* out, size_t capacity);

// Loads the program for the calling thread; no_new_privs must be set. 0 or -errno.
int load_filter(const sock_filter* program, size_t length);

}  // namespace kz::keck::sandbox
