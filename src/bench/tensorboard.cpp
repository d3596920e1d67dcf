#include "bench/tensorboard.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace kz::bench {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? 0x82F63B78U ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  return table;
}

// TFRecord stores CRCs rotated and offset, so that a CRC over data that holds CRCs stays strong.
uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

template <typename T>
void append_raw(std::string& out, T value) {  // little-endian, as every host that we build for
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// One protobuf field: key = number << 3 | wire type (0 varint, 1 64-bit, 2 bytes, 5 32-bit).
void append_bytes(std::string& out, int field, std::string_view bytes) {
  append_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string event(int64_t step) {
  std::string out;
  append_varint(out, 1 << 3 | 1);  // Event.wall_time
  append_raw(out, std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  append_varint(out, 2 << 3);  // Event.step
  append_varint(out, static_cast<uint64_t>(step));
  return out;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = make_table();
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

Result<EventWriter> EventWriter::open(const fs::path& folder, std::string_view name) {
  KZ_TRY(make_dirs(folder));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  const fs::path path = folder / ("events.out.tfevents." + std::to_string(micros) + "." + std::string(name));
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return fail("io", "cannot write " + path.string() + ": " + errno_text(errno));
  EventWriter writer(file, path);
  std::string version = event(0);
  append_bytes(version, 3, "brain.Event:2");  // Event.file_version
  KZ_TRY(writer.record(version));
  return writer;
}

Status EventWriter::scalar(std::string_view tag, int64_t step, double value) {
  std::string summary_value;
  append_bytes(summary_value, 1, tag);       // Summary.Value.tag
  append_varint(summary_value, 2 << 3 | 5);  // Summary.Value.simple_value
  append_raw(summary_value, static_cast<float>(value));
  std::string summary;
  append_bytes(summary, 1, summary_value);  // Summary.value
  std::string payload = event(step);
  append_bytes(payload, 5, summary);  // Event.summary
  return record(payload);
}

Status EventWriter::record(const std::string& payload) {
  std::string length;
  append_raw(length, static_cast<uint64_t>(payload.size()));
  std::string frame = length;
  append_raw(frame, masked(crc32c(length)));
  frame += payload;
  append_raw(frame, masked(crc32c(payload)));
  if (std::fwrite(frame.data(), 1, frame.size(), file_.get()) != frame.size() || std::fflush(file_.get()) != 0) {
    return fail("io", "cannot write " + path_.string() + ": " + errno_text(errno));
  }
  return {};
}

}  // namespace kz::bench
