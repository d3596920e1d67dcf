// The value protocol between a judge and the children that run modules (docs/architecture.md, part 2).
//
// A frame is a 16-byte little-endian header and its payload on a stream socket; descriptors travel beside the header.
// The judge asks, the child answers each request once: bytes that come unasked, twice or malformed are the child's
// fault. python/keck_worker/calls.py is the child's side; the numbers here and there must agree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace kz::keck {

constexpr uint32_t kFrameMagic = 0x31305a4b;  // "KZ01"
constexpr uint32_t kProtocolVersion = 1;
constexpr size_t kMaxFrame = 16u << 20;  // of a payload; tensors never travel inside a frame

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint16_t type = 0;
  uint16_t flags = 0;
  uint32_t seq = 0;  // an answer repeats its request's
  uint32_t size = 0;
};
static_assert(sizeof(FrameHeader) == 16);

// Types below 64 belong to the daemon's part. Requests are the judge's, answers (from 96) the child's.
enum class FrameType : uint16_t {
  kHello = 64,       // {u32 version, u64 nonce} -> kHelloReply; forgets modules of an earlier job
  kInitInputs = 65,  // {u64 seed} -> kValue: get_init_inputs()                                       (reference only)
  kConstruct = 66,   // {u64 seed, value list of arguments} -> kState: parameters and buffers of a new module
  kLoad = 67,        // {state} + memfd -> kDone: copies tensors into the module by name
  kInputs = 68,      // {u64 seed} -> kValue: get_inputs(), as a list                                  (reference only)
  kCall = 69,        // {value list of arguments} + memfd, CallFlags -> kValue: what forward returned
  kRelease = 70,     // {} -> kDone: drops what the last call returned
  kHelloReply = 96,  // {u32 version, u64 address of the nonce in the child's memory}
  kValue = 97,       // {value}
  kState = 98,       // {u32 n, n x (string name, u8 is_buffer, tensor)}
  kDone = 99,        // {}
  kRaised = 100,     // {u8 RaisedKind, string type, string message, string traceback}
};

enum CallFlags : uint16_t {
  kCallDouble = 1,  // run the module's fp64 copy on inputs widened to fp64 (reference only)
  kCallBan = 2,     // run under the operator ban (audit child only)
  kCallNull =
      4,  // build the arguments, skip forward, answer with the last result: the clock's constant (reference only)
  kCallCopy = 8,  // send outputs' bytes after the value, for hosts where the judge may not read the child's memory
};

enum class RaisedKind : uint8_t {
  kException = 0,
  kUnsupported = 1,  // a value that the protocol does not carry, or a tensor subclass
  kBanned = 2,       // the operator ban stopped an operator; message is its name
  kMissing = 3,      // the source has no Model, ModelNew, get_inputs or get_init_inputs; message is its name
};

// Codes on the wire. Complex and quantised types are not carried.
enum class Dtype : uint8_t {
  kBool = 0,
  kUint8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kUint16,
  kUint32,
  kUint64,
  kCount,
};
size_t dtype_size(Dtype dtype);            // bytes of one element
std::string_view dtype_name(Dtype dtype);  // "float32"
bool is_floating(Dtype dtype);

enum class DeviceType : uint8_t { kCpu = 0, kCuda = 1, kOther = 2 };
struct Device {
  DeviceType type = DeviceType::kCpu;
  int16_t index = -1;
  bool operator==(const Device&) const = default;
};

// A strided tensor as a child describes it. Address is the first element's: in the child's memory for what it sends, an
// offset into the frame's memfd for what it gets.
struct TensorRef {
  Dtype dtype = Dtype::kFloat32;
  Device device;
  uint8_t flags = 0;                    // 1: nn.Parameter, 2: requires_grad
  std::vector<int64_t> shape, strides;  // strides in elements; negative ones are malformed
  uint64_t address = 0;
  uint64_t storage_below = 0, storage_bytes = 0;  // bytes of the storage before `address`, and from it on

  int64_t elements() const;  // product of the shape; parse_value has made sure that it fits
};

// A Python value. Dict entries alternate key, value in `items`; keys are scalars.
struct Value {
  enum class Kind : uint8_t { kNone = 0, kBool, kInt, kFloat, kStr, kList, kTuple, kDict, kDtype, kDevice, kTensor };
  Kind kind = Kind::kNone;
  int64_t integer = 0;  // kBool, kInt; the code of kDtype
  double real = 0;
  std::string text;
  Device device;
  std::vector<Value> items;
  TensorRef tensor;
  std::shared_ptr<const std::string> bytes;  // kTensor, once read: contiguous elements in logical order
};

struct NamedTensor {
  std::string name;
  bool is_buffer = false;
  TensorRef tensor;
  std::shared_ptr<const std::string> bytes;
};

// Strict limits, so that a hostile payload costs nothing: errors are "protocol" and say what was wrong.
struct ValueLimits {
  int depth = 32, dims = 32;
  uint32_t nodes = 65536, text_bytes = 1u << 20;
  uint64_t tensor_bytes = 4ULL << 30;  // of one tensor's logical elements
};
Result<Value> parse_value(std::string_view payload, const ValueLimits& limits = {});
Result<std::vector<NamedTensor>> parse_state(std::string_view payload, const ValueLimits& limits = {});
void append_value(std::string& out, const Value& value);
void append_state(std::string& out, const std::vector<NamedTensor>& state);

struct Frame {
  FrameHeader header;
  std::string payload;
  std::vector<Fd> fds;
};

// Whole frames over a stream socket. Error "closed" when the peer is gone, "timeout" when `deadline` (steady_seconds)
// has passed, "protocol" for a bad magic or an oversized payload, "io" otherwise. At most 8 descriptors a frame.
Status send_frame(int socket, FrameHeader header, std::string_view payload, const std::vector<int>& fds,
                  double deadline);
Result<Frame> receive_frame(int socket, size_t max_payload, double deadline);

}  // namespace kz::keck
