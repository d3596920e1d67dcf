// Precompiled headers: one a (headers, class of flags), made on first use and kept in the state folder. What is in them
// is ours or torch's alone; candidates only read them.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

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

  // Folder of the header for these flags, to be included as "kz_unit.h" with -include; made now if missing (seconds).
  // Error "toolchain" with the compiler's words.
  Result<fs::path> slim(const Flags& flags);
  // The same with torch's real headers when it is there already. Else makes it in the background (80 CPU-seconds, once)
  // and returns an empty path: this build goes without.
  fs::path full(const Flags& flags);
  // The same, waiting for it.
  Result<fs::path> full_now(const Flags& flags);

  const fs::path& dir() const { return dir_; }
  Json statistics() const;

 private:
  struct Entry {
    bool making = false, ready = false;
    std::string error;
  };

  Result<fs::path> get(Headers headers, const Flags& flags, bool wait);
  bool make_room(Headers headers);
  Status make(Headers headers, const Flags& flags, const fs::path& folder);
  // Runs a compiler of ours to its end; killed when this goes. Its words go to `log`.
  Status run(const std::vector<std::string>& command, const fs::path& log);
  std::string class_of(Headers headers, const Flags& flags) const;

  const Kit& kit_;
  fs::path dir_;
  std::string compiler_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::map<std::string, Entry> entries_;
  std::vector<std::thread> background_;
  std::set<pid_t> running_;  // process groups
  bool stopping_ = false;
};

}  // namespace kz::keck
