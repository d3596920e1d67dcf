// What the daemon does for one living child beside the judge: answers its build requests (load_inline may be called at
// import, in a constructor or in forward) and drains its output so that a flood never blocks anyone. One thread a
// child.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "keck/build/broker.h"
#include "keck/worker/log_capture.h"

namespace kz::keck {

struct BuildLimits {
  int builds = 8;            // extensions of one candidate
  double cpu_seconds = 120;  // of all of them
  size_t request_bytes = 8 << 20;
  uint64_t output_bytes = 16ULL << 20;  // of the child's stdout and stderr; more is a flood
};

// What the builds of one child came to.
struct BuildTotals {
  int builds = 0;
  double seconds = 0, cpu_seconds = 0;
  std::string headers;        // "full" if any needed them, else "slim", "" without a build
  std::string cache;          // "miss" if any was one
  std::string log;            // of the first failure, else of the last build
  std::string borrowed;       // symbol by which a build computes past torch's dispatcher (object_check.h)
  std::string failed_reason;  // of the first failure: "compile_error" …
};

class BuildService {
 public:
  // `build` is called in the service's thread and may block (slots). `doom` is called, once, when the child must die:
  // a flood or a malformed request.
  using Build = std::function<BuildResult(const BuildRequest&)>;
  BuildService(Fd socket, Fd log, const BuildLimits& limits, Build build, std::function<void()> doom);
  ~BuildService();  // stop()

  // Ends the thread after a last drain of the output; waits for a build in flight.
  void stop();
  BuildTotals totals() const;
  // Seconds spent in builds so far, the running one included: time that is not the child's.
  double build_seconds() const;
  std::string log_text() const;
  bool flooded() const { return flooded_; }
  const std::string& violation() const { return violation_; }  // after stop()

 private:
  void loop();
  bool drain();  // false when the stream ended
  bool answer();
  void note(const BuildResult& result);
  void inspect(int object);

  Fd socket_, log_, wake_;
  BuildLimits limits_;
  Build build_;
  std::function<void()> doom_;
  mutable std::mutex mutex_;  // guards what follows
  LogCapture capture_;
  BuildTotals totals_;
  double building_since_ = 0;
  std::string violation_;
  std::atomic<bool> flooded_{false}, stop_{false};
  std::thread thread_;
};

// The JSON of a build request as python/keck_worker/extension.py sends it. Error "protocol" for anything else.
Result<BuildRequest> build_request_from_json(const Json& body);

}  // namespace kz::keck
