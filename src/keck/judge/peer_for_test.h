// A child in C++ for tests: speaks the value protocol like keck_worker.calls does, computes y = 2x + 1 on float32[64],
// and lies where a test tells it to. Each runs in a forked process of its own.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "keck/judge/protocol.h"
#include "keck/judge/tensor.h"

namespace kz::keck {

class PeerProgram {
 public:
  explicit PeerProgram(int socket) : socket_(socket) {}
  virtual ~PeerProgram() = default;

  void serve() {
    while (true) {
      auto frame = receive_frame(socket_, kMaxFrame, kForever);
      if (!frame) ::_exit(0);
      seq_ = frame->header.seq;
      answer(*frame);
    }
  }

 protected:
  static constexpr double kForever = std::numeric_limits<double>::infinity();
  static constexpr int64_t kElements = 64;

  virtual void answer(Frame& frame) {
    switch (static_cast<FrameType>(frame.header.type)) {
      case FrameType::kHello:
        return hello(frame);
      case FrameType::kInitInputs:
        return send_value(list({}));
      case FrameType::kConstruct:
        return send(FrameType::kState, std::string(4, '\0'));
      case FrameType::kInputs:
        return inputs(frame);
      case FrameType::kCall:
        return call(frame);
      default:
        return send(FrameType::kDone, "");
    }
  }

  virtual void call(Frame& frame) {
    const float* x = input(frame);
    std::vector<float>& y = outputs_.emplace_back(kElements);
    for (int64_t i = 0; i < kElements; ++i) y[static_cast<size_t>(i)] = 2 * x[i] + 1;
    send_value(tensor(y.data()));
  }

  // The first tensor of a call: 64 floats after one poisoned page. The mapping stays.
  float* input(Frame& frame) {
    frame_fd_ = frame.fds.at(0).release();
    char* memory = static_cast<char*>(::mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, frame_fd_, 0));
    return reinterpret_cast<float*>(memory + 4096);
  }

  void inputs(const Frame& frame) {
    uint64_t seed = 0;
    std::memcpy(&seed, frame.payload.data(), sizeof seed);
    Rng rng(seed);
    std::vector<float>& x = outputs_.emplace_back(kElements);
    for (float& v : x) v = static_cast<float>(rng.normal());
    send_value(list({tensor(x.data())}));
  }

  void hello(const Frame& frame) {
    std::memcpy(&nonce_, frame.payload.data() + 4, sizeof nonce_);
    std::string out(12, '\0');
    const uint64_t address = reinterpret_cast<uint64_t>(&nonce_);
    std::memcpy(out.data(), &kProtocolVersion, 4);
    std::memcpy(out.data() + 4, &address, 8);
    send(FrameType::kHelloReply, out);
  }

  static Value tensor(const float* data, std::vector<int64_t> shape = {kElements}) {
    Value v;
    v.kind = Value::Kind::kTensor;
    v.tensor.shape = std::move(shape);
    v.tensor.strides = row_major_strides(v.tensor.shape);
    v.tensor.address = reinterpret_cast<uint64_t>(data);
    v.tensor.storage_bytes = kElements * sizeof(float);
    return v;
  }
  static Value list(std::vector<Value> items) {
    Value v;
    v.kind = Value::Kind::kList;
    v.items = std::move(items);
    return v;
  }

  void send_value(const Value& value) {
    std::string payload;
    append_value(payload, value);
    send(FrameType::kValue, payload);
  }
  void send(FrameType type, std::string_view payload, const std::vector<int>& fds = {}) {
    FrameHeader header;
    header.type = static_cast<uint16_t>(type);
    header.seq = seq_;
    if (!send_frame(socket_, header, payload, fds, kForever)) ::_exit(0);
  }
  void send_raw(std::string_view bytes) {
    if (::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) ::_exit(0);
  }

  int socket_, frame_fd_ = -1;
  uint32_t seq_ = 0;
  uint64_t nonce_ = 0;
  std::vector<std::vector<float>> outputs_;  // kept, as Python keeps results
};

// A forked process that runs a program; killed when it goes.
class TestPeer {
 public:
  explicit TestPeer(const std::function<void(int socket)>& program) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      program(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    socket_ = Fd(ends[0]);
  }
  ~TestPeer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  TestPeer(const TestPeer&) = delete;

  Fd take_socket() { return std::move(socket_); }
  pid_t pid() const { return pid_; }

 private:
  Fd socket_;
  pid_t pid_ = -1;
};

}  // namespace kz::keck
