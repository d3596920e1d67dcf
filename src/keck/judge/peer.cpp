#include "keck/judge/peer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/random.h"
#include "keck/judge/tensor.h"

namespace kz::keck {
namespace {

constexpr size_t kRaisedText = 64u << 10;

bool take_text(std::string_view& left, std::string& out) {
  uint32_t n = 0;
  if (left.size() < sizeof n) return false;
  std::memcpy(&n, left.data(), sizeof n);
  left.remove_prefix(sizeof n);
  if (n > left.size() || n > kRaisedText) return false;
  out.assign(left.substr(0, n));
  left.remove_prefix(n);
  return true;
}

}  // namespace

Status Peer::quiet() const {
  char byte = 0;
  const ssize_t n = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n > 0) return fail("protocol", "an answer that nobody asked for");
  if (n == 0) return fail("closed", "the child is gone");
  if (errno == EAGAIN || errno == EINTR) return {};
  return fail("closed", "the child's socket: " + errno_text(errno));
}

Result<Frame> Peer::ask(FrameType type, uint16_t flags, std::string_view payload, int memory, FrameType expected,
                        double deadline) {
  if (auto silent = quiet(); !silent) {
    broken_ = true;
    return tl::unexpected(silent.error());
  }
  std::vector<int> fds;
  if (memory >= 0) fds.push_back(memory);
  if (copies_ && (type == FrameType::kInitInputs || type == FrameType::kInputs || type == FrameType::kConstruct ||
                  type == FrameType::kCall)) {
    copy_ = Fd(::memfd_create("keck-output", MFD_CLOEXEC));
    if (!copy_) return fail("io", "memfd_create: " + errno_text(errno));
    fds.push_back(copy_.get());
    flags |= kCallCopy;
  }
  FrameHeader header;
  header.type = static_cast<uint16_t>(type);
  header.flags = flags;
  header.seq = ++seq_;
  in_flight_ = true;
  auto answer = [&]() -> Result<Frame> {
    KZ_TRY(send_frame(socket_.get(), header, payload, fds, deadline));
    KZ_ASSIGN(Frame frame, receive_frame(socket_.get(), kMaxFrame, deadline));
    if (frame.header.seq != seq_) return fail("protocol", "an answer to another question");
    if (!frame.fds.empty()) return fail("protocol", "an answer with descriptors");
    const auto got = static_cast<FrameType>(frame.header.type);
    if (got != expected && got != FrameType::kRaised) return fail("protocol", "an answer of the wrong kind");
    return frame;
  }();
  if (!answer) {
    broken_ = true;
    return answer;
  }
  in_flight_ = false;
  if (answer->header.type == static_cast<uint16_t>(FrameType::kRaised)) {
    KZ_TRY(raised_answer(answer->payload));
    return fail("raised", raised_.type + ": " + raised_.message);
  }
  return answer;
}

Status Peer::raised_answer(const std::string& payload) {
  raised_ = {};
  std::string_view left = payload;
  const bool good = !left.empty() && static_cast<uint8_t>(left[0]) <= static_cast<uint8_t>(RaisedKind::kMissing);
  if (good) {
    raised_.kind = static_cast<RaisedKind>(left[0]);
    left.remove_prefix(1);
  }
  if (!good || !take_text(left, raised_.type) || !take_text(left, raised_.message) ||
      !take_text(left, raised_.traceback) || !left.empty()) {
    broken_ = true;
    return fail("protocol", "a malformed exception");
  }
  return {};
}

Status Peer::hello(double deadline) {
  const uint64_t nonce = secret_seed();
  std::string payload(12, '\0');
  std::memcpy(payload.data(), &kProtocolVersion, 4);
  std::memcpy(payload.data() + 4, &nonce, 8);
  KZ_ASSIGN(const Frame frame, ask(FrameType::kHello, 0, payload, -1, FrameType::kHelloReply, deadline));
  uint32_t version = 0;
  uint64_t address = 0, found = 0;
  if (frame.payload.size() != sizeof version + sizeof address) return fail("protocol", "a malformed hello");
  std::memcpy(&version, frame.payload.data(), sizeof version);
  std::memcpy(&address, frame.payload.data() + sizeof version, sizeof address);
  if (version != kProtocolVersion) return fail("protocol", "a child of protocol version " + std::to_string(version));
  copies_ = pid_ <= 0 || !read(address, reinterpret_cast<char*>(&found), sizeof found) || found != nonce;
  return {};
}

Status Peer::read(uint64_t address, char* to, size_t size) const {
  constexpr size_t kStep = 1u << 30;
  while (size > 0) {
    const size_t step = std::min(size, kStep);
    iovec local{to, step};
    iovec remote{reinterpret_cast<void*>(address), step};  // NOLINT(performance-no-int-to-ptr): another process's
    const ssize_t n = ::process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (n <= 0) {
      if (n == 0 || errno == EFAULT) return fail("protocol", "a tensor at an address that cannot be read");
      if (errno == ESRCH) return fail("closed", "the child is gone");
      return fail("io", "process_vm_readv: " + errno_text(errno));
    }
    address += static_cast<uint64_t>(n);
    to += n;
    size -= static_cast<size_t>(n);
  }
  return {};
}

Result<std::string> Peer::contents(const TensorRef& t, off_t& copied) const {
  const uint64_t packed = static_cast<uint64_t>(t.elements()) * dtype_size(t.dtype);
  if (packed == 0) return std::string();
  if (copies_) {
    std::string bytes(packed, '\0');
    for (size_t done = 0; done < packed;) {
      const ssize_t n = ::pread(copy_.get(), bytes.data() + done, packed - done, copied + static_cast<off_t>(done));
      if (n <= 0) return fail("protocol", "a copy that is cut");
      done += static_cast<size_t>(n);
    }
    copied += static_cast<off_t>(packed);
    return bytes;
  }
  const uint64_t extent = extent_bytes(t);
  if (extent > max_bytes_) return fail("too_large", describe(t) + " spreads over " + std::to_string(extent) + " bytes");
  std::string raw(extent, '\0');
  KZ_TRY(read(t.address, raw.data(), raw.size()));
  if (is_contiguous(t)) return raw;
  return gather(t, raw);
}

Status Peer::fetch(Value& value) {
  uint64_t total = 0;
  off_t copied = 0;
  for (Value* v : tensors_of(value)) {
    total += static_cast<uint64_t>(v->tensor.elements()) * dtype_size(v->tensor.dtype);
    if (total > max_bytes_) return fail("too_large", "tensors of more than " + std::to_string(max_bytes_) + " bytes");
    if (v->tensor.device.type != DeviceType::kCpu) continue;
    KZ_ASSIGN(std::string bytes, contents(v->tensor, copied));
    v->bytes = std::make_shared<const std::string>(std::move(bytes));
  }
  return {};
}

Status Peer::snapshot(const Value& value, std::vector<std::string>& buffers) {
  const std::vector<const Value*> tensors = tensors_of(value);
  if (buffers.size() < tensors.size()) buffers.resize(tensors.size());
  uint64_t total = 0;
  off_t copied = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorRef& t = tensors[i]->tensor;
    const uint64_t size = extent_bytes(t);
    total += size;
    if (total > max_bytes_) return fail("too_large", "tensors of more than " + std::to_string(max_bytes_) + " bytes");
    if (t.device.type != DeviceType::kCpu) continue;
    if (copies_) {
      KZ_ASSIGN(buffers[i], contents(t, copied));
    } else {
      buffers[i].resize(size);
      KZ_TRY(read(t.address, buffers[i].data(), size));
    }
  }
  return {};
}

Status Peer::settle(Value& value, const std::vector<std::string>& buffers) {
  const std::vector<Value*> tensors = tensors_of(value);
  for (size_t i = 0; i < tensors.size(); ++i) {
    Value& v = *tensors[i];
    if (v.tensor.device.type != DeviceType::kCpu) continue;
    v.bytes = std::make_shared<const std::string>(copies_ ? buffers[i] : gather(v.tensor, buffers[i]));
  }
  return {};
}

Result<Value> Peer::ask_value(FrameType type, uint16_t flags, std::string_view payload, int memory, double deadline) {
  KZ_ASSIGN(const Frame frame, ask(type, flags, payload, memory, FrameType::kValue, deadline));
  auto value = parse_value(frame.payload, limits_);
  if (!value) {
    broken_ = true;
    return value;
  }
  KZ_TRY(fetch(*value));
  return value;
}

Result<std::vector<NamedTensor>> Peer::ask_state(std::string_view payload, int memory, bool with_bytes,
                                                 double deadline) {
  KZ_ASSIGN(const Frame frame, ask(FrameType::kConstruct, 0, payload, memory, FrameType::kState, deadline));
  auto state = parse_state(frame.payload, limits_);
  if (!state) {
    broken_ = true;
    return state;
  }
  uint64_t total = 0;
  off_t copied = 0;
  for (NamedTensor& entry : *state) {
    total += static_cast<uint64_t>(entry.tensor.elements()) * dtype_size(entry.tensor.dtype);
    if (total > max_bytes_)
      return fail("too_large", "parameters of more than " + std::to_string(max_bytes_) + " bytes");
    if (!with_bytes) continue;
    KZ_ASSIGN(std::string bytes, contents(entry.tensor, copied));
    entry.bytes = std::make_shared<const std::string>(std::move(bytes));
  }
  return state;
}

double Peer::cpu_seconds() const {
  clockid_t clock{};
  timespec t{};
  if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace kz::keck
