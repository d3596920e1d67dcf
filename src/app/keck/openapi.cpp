#include <cstdio>

#include "app/keck/commands.h"
#include "keck/api/service.h"

namespace kz::keck {

int openapi() {
  std::printf("%s\n", dump_json(describe_api(), 2).c_str());
  return kExitPass;
}

}  // namespace kz::keck
