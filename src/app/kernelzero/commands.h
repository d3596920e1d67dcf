// The commands of `kernelzero`. Each returns the exit code of the process: 0 done, 1 not (no right kernel, a run that
// failed), 2 usage, file, config or port, 3 nothing could be scored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace kz::app {

enum ExitCode { kExitDone = 0, kExitNot = 1, kExitUsage = 2, kExitUnscored = 3 };

// "kernelzero: message" on standard error; the exit code that belongs to it.
int complain(const Error& error);

// Where verdicts come from: a running server, or one of our own for the life of the command.
struct Where {
  std::string server;   // URL; empty: our own
  std::string backend;  // empty: as the command says
  int workers = 0;      // of our own server
};

struct EvolveCommand {
  std::string config;  // file; empty when resuming
  std::string resume, replay;
  std::string runs = "runs";
  std::vector<std::string> overrides;
  bool json = false;
};
int evolve(const EvolveCommand& command);
int demo(const EvolveCommand& command);  // configs/demo.toml, with the story told

struct SftCommand {
  std::string config;
  std::vector<std::string> overrides;
  bool json = false;
};
int sft(const SftCommand& command);

struct EvalCommand {
  Where where;
  std::string model, tasks, format = "auto", check = "strict", device = "cpu", out;
  int samples = 8, max_new_tokens = 1024, limit = 0;
  double temperature = 1.0;
  uint64_t seed = 0;
  bool json = false, timing = true;
};
int evaluate(const EvalCommand& command);

struct ProposeCommand {
  Where where;
  std::string model, format = "auto", device = "cpu";
  std::vector<std::string> apis;
  int samples = 8, max_new_tokens = 1024;
  double temperature = 1.0;
  uint64_t seed = 0;
  bool json = false;
};
int propose(const ProposeCommand& command);

struct CodeCommand {
  Where where;
  std::string module, model, format = "auto", check = "strict", device = "cpu";
  int samples = 8, max_new_tokens = 2048;
  double temperature = 1.0;
  uint64_t seed = 0;
  bool json = false, timing = true;
};
int code(const CodeCommand& command);

struct ApisCommand {
  int lists = 10;
  uint64_t seed = 0;
  std::vector<int> sizes = {2, 3};
  std::vector<std::string> subset;
  bool json = false;
};
int apis_list(const ApisCommand& command);
int apis_stats(const ApisCommand& command);
int apis_sample(const ApisCommand& command);

struct CorpusCommand {
  Where where;
  std::string file;
  std::vector<std::string> families, backends = {"cpp", "triton"};
  int rows = 3200, per_family = 10;
  uint64_t seed = 1;
  bool json = false;
};
int corpus_make(const CorpusCommand& command);
int corpus_check(const CorpusCommand& command);

struct ReportCommand {
  std::string run, out;
  int rollouts = 200;
  bool json = false;
};
int report(const ReportCommand& command);

int model_info(const std::string& model, bool json);

}  // namespace kz::app
