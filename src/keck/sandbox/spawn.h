// Starts keck-init: clone with namespaces, sharing memory until the exec, so that the cost does not grow with the
// daemon.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/files.h"

namespace kz::keck::sandbox {

struct Spawned {
  pid_t pid = 0;
  Fd pidfd;
};

struct SpawnSpec {
  int executable = -1;  // descriptor of keck-init
  std::vector<std::string> argv, env;
  std::vector<int> fds;  // become 0, 1, 2, …; nothing else is passed on
  int namespaces = 0;    // CLONE_NEW* flags
  int box = -1;          // pidfd: start inside the pid namespace of its process …
  int own_pid_ns = -1;   // … with this one (/proc/self/ns/pid) to come back to
};

// Error "host" when the kernel refuses.
Result<Spawned> spawn(const SpawnSpec& spec);

// Waits for the end of a child and reaps it; false when it lives on after `timeout_s`. `status` and `cpu_seconds` (of
// it and what it waited for) are optional.
bool reap(const Spawned& child, double timeout_s, int* status = nullptr, double* cpu_seconds = nullptr);

}  // namespace kz::keck::sandbox
