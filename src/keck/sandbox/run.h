// Runs one program (a compiler) confined, and waits for it. The program sees a private root: what `read_only` names, a
// private folder as its current directory (a tmpfs of its own with a size cap, at kWorkDir, at level strong), no
// network, an empty environment, no descriptor but 0 (/dev/null), 1 and 2 (captured).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "keck/sandbox/slot.h"

namespace kz::keck::sandbox {

// A folder that only we and the confined program see: a detached tmpfs at strong (no path on the host, nothing to clean
// up), a fresh folder under SlotPoolOptions.state at weak. Several runs may use one in turn (compile, then link).
class PrivateDir {
 public:
  static Result<PrivateDir> make(SlotPool& pool, uint64_t bytes = 256ULL << 20);
  PrivateDir(PrivateDir&&) noexcept;
  PrivateDir& operator=(PrivateDir&&) noexcept;
  ~PrivateDir();

  // Names are relative, without "..": "main.cpp", "sub/a.h". Files are readable and writable by the program.
  Status write(std::string_view name, std::string_view bytes);
  // Regular files only (never a link that the program left), at most `limit` bytes.
  Result<std::string> read(std::string_view name, uint64_t limit = 256ULL << 20) const;
  // A copy as a sealed memfd: what leaves the sandbox.
  Result<Fd> take(std::string_view name, uint64_t limit = 256ULL << 20) const;
  // Where the program sees it: kWorkDir in a box.
  const std::string& inside() const { return inside_; }

 private:
  friend struct RunAccess;
  PrivateDir() = default;
  std::unique_ptr<Slot> slot_;  // its private folder is this one
  Fd host_;                     // weak only; else the slot holds it
  int fd_ = -1;
  std::string inside_;
};

inline constexpr std::string_view kWorkDir = "/tmp";

struct RunSpec {
  std::vector<std::string> argv;  // argv[0] absolute, inside
  std::vector<std::string>
      env;  // "NAME=value"; PATH=/usr/bin:/bin, HOME and TMPDIR=cwd and LC_ALL=C are added where missing
  PrivateDir* dir = nullptr;  // cwd; null: a fresh one for this run
  Limits limits;
  double wall_seconds = 60;
  uint64_t output_bytes =
      1 << 20;        // of stdout and stderr each; head and tail are kept, the rest is counted and dropped
  std::string input;  // stdin; empty: /dev/null
  const std::atomic<bool>* cancelled = nullptr;
};

struct RunResult {
  int exit_code = -1;      // when it exited
  int signal = 0;          // when a signal ended it
  bool timed_out = false;  // wall_seconds, or limits.cpu_seconds
  bool oom = false;        // memory limit
  bool cancelled = false;
  double cpu_seconds = 0;  // of the whole tree
  double wall_seconds = 0;
  std::string out, err;  // captured, capped
  bool ok() const { return exit_code == 0 && signal == 0 && !timed_out && !cancelled; }
};

// Everything that the program started is dead when this returns. Error "host": the sandbox itself failed, which is
// never the program's fault. A program that can't be executed ends with exit_code 127 and a line in err.
Result<RunResult> run_confined(SlotPool& pool, const RunSpec& spec);

}  // namespace kz::keck::sandbox
