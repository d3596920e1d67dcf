// Slots: where one untrusted process tree runs. Daemon side; no Python here.
//
//   auto pool = SlotPool::make({.capabilities = caps, .level = level, .read_only = worker_binds(layout)});
//   auto slot = pool->acquire({.memory_bytes = 2ULL << 30});     // box is up, empty
//   send_to_zygote(slot->child_spec());                          // → forked child calls kz_confine (confine.h)
//   slot->adopt(pid_that_the_zygote_reported);
//   … slot->freeze(); slot->thaw(); slot->cpu_seconds(); …
//   slot.reset();                                                // kills everything in it and waits until it is gone
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/layout.h"
#include "keck/sandbox/capabilities.h"

namespace kz::keck::sandbox {

// A host path that is visible inside, read-only; `to` empty: at the same path.
struct Bind {
  fs::path from, to;
};

// /usr, /lib*, /etc/ld.so.cache, the venv, the interpreter's real prefix, the worker's folder, our shared objects.
std::vector<Bind> worker_binds(const Layout& layout);
// /usr, /lib*, /etc/alternatives, ld.so.cache, and python's include folder: what g++ needs.
std::vector<Bind> toolchain_binds(const Layout& layout);

struct Limits {
  uint64_t memory_bytes = 2ULL << 30;  // by cgroup, else RLIMIT_AS above what the process had at confinement
  int processes = 256;                 // tasks, threads included, by cgroup, else RLIMIT_NPROC
  double cpus = 0;                     // quota in cores; 0: none
  double cpu_seconds = 0;              // RLIMIT_CPU a process; 0: none
  uint64_t tmp_bytes = 256ULL << 20;   // size of the private tmpfs (it counts as memory too)
  uint64_t file_bytes = 256ULL << 20;  // RLIMIT_FSIZE
  int open_files = 256;
  uint64_t stack_bytes = 8ULL << 20;
  bool allow_processes = true;  // false: fork and exec are refused, threads are not (always so at weak for children)
};

class SlotPool;

class Slot {
 public:
  ~Slot();  // kill_all, then gives uid and cgroups back to the pool
  Slot(const Slot&) = delete;

  // Opaque text for the zygote's child: hand it verbatim to kz_before_fork and kz_confine of libkeck_child.so.
  const std::string& child_spec() const { return child_spec_; }
  Level level() const;
  uid_t uid() const { return uid_; }  // of what runs inside, seen from here

  // The pid (as the daemon sees it) of the child that was forked into this slot. Needed at weak; harmless at strong.
  void adopt(pid_t pid);

  // Kills everything that ever started in the slot (setsid, double forks and threads included) and waits until none is
  // left; the slot is empty then, its box gone. Error "timeout" when something does not die (device wait).
  Status kill_all(double timeout_s = 5);
  // Stops and continues everything inside; returns when all are stopped. Error "freeze_timeout".
  Status freeze(double timeout_s = 0.5);
  Status thaw();

  double cpu_seconds() const;    // user + system of everything that ran in it since acquire
  uint64_t memory_peak() const;  // bytes; 0 where unknown
  uint64_t oom_kills() const;    // by its own memory limit, since acquire
  bool killed_by_host() const;   // something in it was killed for memory that others hold: nobody's fault in here
  bool empty() const;            // no process left but keck-init

  struct State;  // insides, slot_state.h

 private:
  friend class SlotPool;
  friend struct SlotAccess;
  explicit Slot(SlotPool& pool);  // in slot.cpp, where State is complete

  SlotPool& pool_;
  std::unique_ptr<State> state_;
  uid_t uid_ = 0;
  std::string child_spec_;
};

struct SlotPoolOptions {
  Capabilities capabilities;
  Level level = Level::kWeak;
  std::vector<Bind> read_only;
  fs::path state;             // weak level: private folders are made here; must be readable by our uid only
  std::string name = "keck";  // shown in cgroup names
  int max_slots = 64;
  fs::path init;  // keck-init; empty: beside this executable
};

// Owner of uids, cgroup folders and the template of the private root. Thread-safe. Removes what it made; groups that a
// killed daemon left behind are removed by the next one.
class SlotPool {
 public:
  static Result<std::unique_ptr<SlotPool>> make(const SlotPoolOptions& options);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;

  // Error "busy" when all max_slots are out, "host" when the box can't be made.
  Result<std::unique_ptr<Slot>> acquire(const Limits& limits);
  Level level() const;
  const Capabilities& capabilities() const;
  // How each limit is enforced here: {"level","kill","memory","processes","freeze","network","files","uid"}.
  Json describe() const;

  struct Impl;  // insides, slot_state.h

 private:
  friend class Slot;
  friend struct SlotAccess;
  explicit SlotPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kz::keck::sandbox
