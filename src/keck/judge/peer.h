// One child as the judge sees it: asks, waits with a deadline, checks that each answer is the one asked for, and reads
// the child's memory. Nothing that a child sends is believed further than that it is what the child said.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/files.h"
#include "keck/judge/handover.h"
#include "keck/judge/protocol.h"

namespace kz::keck {

// What the child's code raised, in the child's own words.
struct Raised {
  RaisedKind kind = RaisedKind::kException;
  std::string type, message, traceback;
};

// Errors: "closed" (it died), "timeout", "protocol" (early, doubled, malformed, lying), "raised" (see raised()),
// "too_large" (over the limit on bytes), "io" (ours).
class Peer {
 public:
  Peer(Fd socket, pid_t pid, uint64_t max_bytes) : socket_(std::move(socket)), pid_(pid), max_bytes_(max_bytes) {}

  // Starts a job with the child; finds out whether its memory can be read from here, else it must copy.
  Status hello(double deadline);

  // Sends one request and awaits an answer of type `expected`. `memory` is the handover's memfd or -1.
  Result<Frame> ask(FrameType type, uint16_t flags, std::string_view payload, int memory, FrameType expected,
                    double deadline);

  // The same, parsed, with every CPU tensor's bytes fetched.
  Result<Value> ask_value(FrameType type, uint16_t flags, std::string_view payload, int memory, double deadline);
  Result<std::vector<NamedTensor>> ask_state(std::string_view payload, int memory, bool fetch, double deadline);

  // Fills `bytes` of every CPU tensor: from the child's memory, or from `copies` in copy mode.
  Status fetch(Value& value);
  Status read(uint64_t address, char* to, size_t size) const;

  // fetch() in two halves, so that a clock can stop between them: raw bytes into buffers that are kept from call to
  // call, then those into the value.
  Status snapshot(const Value& value, std::vector<std::string>& buffers);
  Status settle(Value& value, const std::vector<std::string>& buffers);

  // Nothing may lie in the socket while nothing was asked. Error "protocol" or "closed".
  Status quiet() const;

  bool copies() const { return copies_; }
  bool clean() const { return !in_flight_ && !broken_; }
  const Raised& raised() const { return raised_; }
  pid_t pid() const { return pid_; }
  const ValueLimits& limits() const { return limits_; }
  double cpu_seconds() const;  // of the whole process so far; 0 when it is gone

 private:
  Status raised_answer(const std::string& payload);
  Result<std::string> contents(const TensorRef& tensor, off_t& copied) const;

  Fd socket_;
  pid_t pid_;
  uint64_t max_bytes_;
  ValueLimits limits_;
  uint32_t seq_ = 0;
  bool copies_ = false, in_flight_ = false, broken_ = false;
  Fd copy_;  // where the child writes in copy mode, of the last request
  Raised raised_;
};

}  // namespace kz::keck
