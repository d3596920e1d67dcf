// Mounts of keck-init: the template of the private root, made once a pool, and what each box adds to its copy.
#pragma once

#include "keck/sandbox/spec.h"

namespace kz::keck::sandbox {

// In a mount namespace of its own: a read-only tmpfs root with the spec's binds, device nodes and the few files that a
// C library wants; the old root is gone afterwards. 0 or -errno with the step in *what.
int make_template(const Spec& spec, const char** what);

// Enters a copy of the template (root_fd) and adds a fresh /proc and the private folder (tmp_fd) at /tmp. The caller
// must be PID 1 of the new pid namespace.
int enter_private_root(const Spec& spec, const char** what);

}  // namespace kz::keck::sandbox
