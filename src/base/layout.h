// Where the program's own files are: a checkout or a relocated tree made by `make dist` (both have python/keck_worker).
#pragma once

#include "base/files.h"

namespace kz {

struct Layout {
  fs::path root;          // KERNELZERO_HOME, else the nearest folder above the executable that holds python/keck_worker
  fs::path bin;           // keck, keck-judge, kernelzero: the folder of this executable
  fs::path lib;           // our shared objects (libkeck_child.so): bin/../lib
  fs::path python;        // interpreter: KERNELZERO_PYTHON, else root/.venv/bin/python, else python3 on PATH
  fs::path worker;        // root/python, to put on PYTHONPATH
  fs::path slim_headers;  // root/src/headers/slim
  fs::path state;         // KERNELZERO_STATE, else $XDG_CACHE_HOME/kernelzero, else ~/.cache/kernelzero
};

Result<Layout> find_layout();

}  // namespace kz
