// The commands of `keck`. Each returns the exit code of the process: 0 pass, 1 fail, 2 usage, file, config or port,
// 3 unscored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace kz::keck {

enum ExitCode { kExitPass = 0, kExitFail = 1, kExitUsage = 2, kExitUnscored = 3 };

struct ServeCommand {
  std::string config, listen, state, sandbox, port_file;
  std::vector<std::string> overrides;  // "a.b=c"
  int workers = 0;
  bool die_with_parent = false;
};
int serve(const ServeCommand& command);

// Options of the commands that judge something, in this process or at a server.
struct Where {
  std::string server;  // URL; empty: an evaluator of our own for this one job
  std::string state, sandbox = "auto";
};

struct CheckCommand {
  Where where;
  std::string module, candidate;  // files
  std::string backend, check = "strict", keep;
  std::optional<uint64_t> seed;
  bool json = false, timing = true;
};
int check(const CheckCommand& command);

struct CheckModuleCommand {
  Where where;
  std::string module;  // file
  std::vector<std::string> apis;
  std::optional<uint64_t> seed;
  bool json = false;
};
int check_module(const CheckModuleCommand& command);

struct DoctorCommand {
  std::string state, sandbox = "auto";
  bool json = false, quick = false;
};
int doctor(const DoctorCommand& command);

int openapi();

// "keck: message" on standard error; the exit code of a usage, file, config or port error.
int complain(const Error& error);

}  // namespace kz::keck
