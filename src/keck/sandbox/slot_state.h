// Insides of Slot and SlotPool, shared by slot.cpp, slot_pool.cpp, private_dir.cpp and run.cpp.
#pragma once

#include <array>
#include <mutex>
#include <optional>

#include "keck/sandbox/cgroups.h"
#include "keck/sandbox/slot.h"
#include "keck/sandbox/spawn.h"

namespace kz::keck::sandbox {

// What a slot leaves to the next one that is acquired: names and folders, never contents.
struct Place {
  int index = 0;
  uid_t uid = 0;
  Cgroup cgroup;
  Fd net;  // a net namespace with nothing in it
};

struct Slot::State {
  std::unique_ptr<Place> place;
  Limits limits;
  bool killed = false;  // kill_all came by: nothing can be started here any more
  // Level strong (box).
  Spawned init;
  Fd lifeline;  // keck-init ends with it
  Fd folder;    // the private tmpfs
  // Level weak.
  std::optional<TempDir> scratch;
  pid_t child = 0;
  Fd child_pidfd;
};

struct SlotPool::Impl {
  SlotPoolOptions options;
  bool boxes = false;  // namespaces and a private root are used, whatever the level's name
  bool switch_uid = false;
  CgroupBase cgroups;
  Fd init_executable, own_pid_ns;
  Spawned template_holder;
  Fd template_lifeline, root_ns;
  uid_t first_uid = 0;
  Fd uid_lock;
  std::optional<TempDir> scratch;  // parent of the private folders at weak

  std::mutex mutex;
  std::vector<std::unique_ptr<Place>> free;
  std::vector<Spawned> dying;  // boxes that were killed and not reaped yet
  int made = 0, out = 0;
  uint64_t uid_tasks = 0;      // tasks of our own uid, counted …
  double uid_tasks_at = -1e9;  // … at this time

  Result<std::unique_ptr<Place>> take_place();
  void give_back(std::unique_ptr<Place> place, Spawned init);
  void reap_dying(double timeout_s);
  uint64_t own_uid_tasks();
};

// The way in for run.cpp and private_dir.cpp.
struct SlotAccess {
  static SlotPool::Impl& impl(SlotPool& pool) { return *pool.impl_; }
  static Slot::State& state(Slot& slot) { return *slot.state_; }
  static SlotPool& pool(Slot& slot) { return slot.pool_; }
  // Spec lines for something that runs in this slot; `program`: started by keck-init, not forked by the zygote.
  static std::string spec(const Slot& slot, bool program);
};

// A pipe whose ends close on exec.
Result<std::array<Fd, 2>> make_pipe();
// Reads keck-init's first report; empty for 'R' and for an end of file, else the text with its kind in front.
Result<std::string> first_report(int fd, double timeout_s);

}  // namespace kz::keck::sandbox
