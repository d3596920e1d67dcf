// What /proc says about tasks, for hosts without control groups.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace kz::keck::sandbox {

inline constexpr int kLandlockScopes = 6;  // first ABI that keeps signals and abstract sockets inside

uint64_t tasks_of_uid(uid_t uid);  // threads of all processes of a uid
bool all_stopped(pid_t pid);       // every thread is stopped, or the process is gone

}  // namespace kz::keck::sandbox
