// The daemon's handle of the zygote (python/keck_worker/zygote.py): one Python process with torch imported and one
// thread, from which children are forked into slots. Thread-safe; the process dies with its handle.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/json.h"
#include "base/layout.h"

namespace kz::keck {

// Frames between daemon, zygote and children before the judge (python/keck_worker/frames.py has the same numbers).
// Payloads are JSON.
enum class WorkerFrame : uint16_t {
  kInit = 1,     // {"interpret", "shim", "sandbox"}                  -> kReady
  kReady = 2,    // {"versions", "rss_mb", "import_seconds"}
  kFork = 3,     // {"id", "spec"} + channel, build socket, log       -> kForked
  kForked = 4,   // {"id", "pid", "error"?} + pidfd
  kExited = 5,   // {"id", "status", "cpu_seconds", "max_rss_kb"}, when it happens
  kUp = 15,      // from a child, once confined and before it reads a source: later faults are the source's
  kLoad = 16,    // to a child: {"role", "source", "backend"}         -> kLoaded
  kLoaded = 17,  // {"ok", "stage", "reason", "message", "traceback"}, or the facts of a module
  kBuild = 24,   // from a child, on its build socket: BuildRequest   -> kBuilt
  kBuilt = 25,   // {"ok", "reason", "log", "module_name"} + the shared object
};

struct ZygoteOptions {
  Layout layout;
  fs::path shim;                   // libkz_shim.so, empty: none
  fs::path log;                    // its standard error; the end is quoted when it can't start
  Json catalogue = Json::array();  // entries of data/apis/catalogue.json, for the module gate
  bool interpret = true;           // Triton's interpreter: for hosts without a GPU
  double start_s = 300;            // some 5 s on a quiet machine
};

struct Forked {
  uint64_t id = 0;
  pid_t pid = 0;  // as the daemon sees it
  Fd pidfd;
};

struct Exited {
  int status = 0;  // as of wait(2)
  double cpu_seconds = 0;
  uint64_t max_rss_kb = 0;
};

class Zygote {
 public:
  // Error "host": what is missing, with the end of the zygote's own words.
  static Result<std::unique_ptr<Zygote>> start(const ZygoteOptions& options);
  ~Zygote();
  Zygote(const Zygote&) = delete;

  // The child confines itself to `spec` (Slot::child_spec) before it reads a byte. Descriptors are borrowed. Error
  // "zygote": the zygote is gone or refused, a fault of the host.
  Result<Forked> fork(const std::string& spec, int channel, int build, int log);
  // How the child `id` ended; waits up to timeout_s. An id is forgotten once this has told.
  std::optional<Exited> wait_exit(uint64_t id, double timeout_s);

  bool alive() const;
  const Json& ready() const { return ready_; }  // payload of kReady
  uint64_t forks() const;

 private:
  Zygote() = default;
  void read_loop();

  struct Entry {
    std::optional<Result<Forked>> forked;
    std::optional<Exited> exited;
  };
  pid_t pid_ = -1;
  Fd control_;
  Json ready_;
  mutable std::mutex mutex_;  // guards what follows
  std::mutex write_mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Entry> entries_;
  uint64_t next_ = 1, forks_ = 0;
  bool gone_ = false;
  std::thread reader_;
};

}  // namespace kz::keck
