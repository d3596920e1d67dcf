// The locks that a process puts on itself, in the order in which the kernel allows them. No allocation: it also runs in
// a child of the zygote whose heap belongs to Python.
#pragma once

#include "keck/sandbox/seccomp_filter.h"
#include "keck/sandbox/spec.h"

namespace kz::keck::sandbox {

// All return 0 or -errno and say in *what which step it was (a literal).
using What = const char**;

// Writes this process into the groups of the spec. Before any namespace is joined: paths are the host's.
int join_cgroups(const Spec& spec, What what);

// Joins mount, ipc, net and uts namespaces of the process behind `pidfd`; the pid namespace was joined by the fork.
int join_box(int pidfd, What what);

// Keeps 0, 1, 2 (opened on /dev/null unless in `keep`) and `keep`; closes everything else.
int close_descriptors(const int* keep, int n_keep, What what);

// rlimits, cwd, uid and gid, capabilities, death with the parent, no_new_privs, Landlock; not seccomp, which comes
// last.
int drop_privileges(const Spec& spec, What what);

}  // namespace kz::keck::sandbox
