// Precompiled headers: one a (headers, class of flags), made on first use and kept in the state folder. What is in them
// is ours or torch's alone; candidates only read them.
//
// Several daemons may share the folder. A class has a lock file: who makes the header holds it exclusively, who uses it
// shares it for as long as he lives, so that none is removed under a user. A folder being made is `.make-*`, and its
// maker holds the lock of a file in it: what a killed one left is swept at the next start. The compiler dies with us.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "keck/build/flags.h"
#include "keck/build/kit.h"
#include "keck/build/target.h"

namespace kz::keck {

class Precompiled {
 public:
  // `dir` is kept under a cap: the least used are removed.
  Precompiled(const Kit& kit, fs::path dir, std::string compiler);
  ~Precompiled();

  // Folder of the header for these flags, to be included as "kz_unit.h" with -include; made now if missing (10
  // CPU-seconds). Error "toolchain" with the compiler's words.
  Result<fs::path> slim(const Flags& flags);
  // The same with torch's real headers: 100 CPU-seconds and 2.5 GB of memory to make, so one at a time on a host. Error
  // "busy" when it is not there after `wait_seconds`: it will be, later; "toolchain": it can't be made or kept.
  Result<fs::path> full(const Flags& flags, double wait_seconds);

  const fs::path& dir() const { return dir_; }
  Json statistics() const;

 private:
  struct Entry {
    bool making = false, ready = false;
    std::string error;
    Fd use;  // the class's lock, shared
  };

  Result<fs::path> get(Headers headers, const Flags& flags, double wait_seconds);
  void start_making(Headers headers, const Flags& flags, const std::string& name);
  // Made by us or by another daemon meanwhile; the lock that keeps it.
  Result<Fd> obtain(Headers headers, const Flags& flags, const fs::path& folder);
  Status make_room(Headers headers);
  Status make(Headers headers, const Flags& flags, const fs::path& folder);
  // Runs a compiler of ours to its end; killed when this goes. Its words go to `log`.
  Status run(const std::vector<std::string>& command, const fs::path& log);
  std::string class_of(Headers headers, const Flags& flags) const;
  void sweep();
  bool stopping() const;

  const Kit& kit_;
  fs::path dir_;
  std::string compiler_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::map<std::string, Entry> entries_;
  std::vector<std::thread> makers_;
  std::set<pid_t> running_;  // process groups
  bool stopping_ = false;
};

}  // namespace kz::keck
