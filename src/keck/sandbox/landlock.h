// Landlock by raw system call (Debian 12's headers know only its first form): the file rules of a spec, no TCP, no
// signal and no abstract socket to processes outside, each where this kernel has it.
#pragma once

#include "keck/sandbox/spec.h"

namespace kz::keck::sandbox {

int landlock_abi();  // 0: not there

// Restricts the calling process for good; no_new_privs must be set. Missing paths are skipped. 0 or -errno.
int restrict_files(const Spec& spec);

}  // namespace kz::keck::sandbox
