// TensorBoard event files: TFRecord framing (length, masked CRC32C, payload, masked CRC32C) around Event protobufs with
// simple_value summaries. Format: tensorflow/core/lib/io/record_writer.cc and core/util/event.proto.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/files.h"

namespace kz::bench {

class EventWriter {
 public:
  // Makes FOLDER/events.out.tfevents.<time>.<name>; a resumed run adds a further file, which TensorBoard reads as one
  // run.
  static Result<EventWriter> open(const fs::path& folder, std::string_view name);

  // Non-finite values are written as they are: TensorBoard shows a gap. Errors are of the disk.
  Status scalar(std::string_view tag, int64_t step, double value);

 private:
  explicit EventWriter(std::FILE* file, fs::path path) : file_(file, &std::fclose), path_(std::move(path)) {}
  Status record(const std::string& payload);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  fs::path path_;
};

uint32_t crc32c(std::string_view bytes);  // Castagnoli, as in RFC 3720

}  // namespace kz::bench
