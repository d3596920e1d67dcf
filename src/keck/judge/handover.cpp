#include "keck/judge/handover.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "keck/judge/tensor.h"

namespace kz::keck {
namespace {

constexpr uint64_t kPage = 4096;  // python/keck_worker/values.py agrees
constexpr char kPoison = '\xff';

Status write_all(int fd, std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail("io", "writing an input: " + errno_text(errno));
    done += static_cast<size_t>(n);
  }
  return {};
}

Status read_all(int fd, char* to, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(fd, to + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail("io", "reading an input back: " + errno_text(errno));
    done += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace

void Handover::place(TensorRef& t, const std::string& bytes) {
  t.strides = dense_strides(t);
  t.flags = 0;
  t.storage_below = 0;
  t.storage_bytes = extent_bytes(t);
  t.address = image_.size() + kPage;
  placed_.push_back(t);
  if (t.storage_bytes == 0) return;
  const uint64_t pages = (t.storage_bytes + kPage - 1) / kPage;
  image_.resize(image_.size() + (pages + 2) * kPage, kPoison);
  scatter(t, bytes, image_.data() + t.address);
}

Handover::Handover(const Value& arguments) {
  Value laid = arguments;
  for (Value* tensor : tensors_of(laid)) place(tensor->tensor, *tensor->bytes);
  append_value(payload_, laid);
}

Handover::Handover(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> laid = state;
  for (NamedTensor& entry : laid) place(entry.tensor, *entry.bytes);
  append_state(payload_, laid);
}

Result<Fd> Handover::open() const {
  if (image_.empty()) return Fd();
  Fd fd(::memfd_create("keck-input", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail("io", "memfd_create: " + errno_text(errno));
  KZ_TRY(write_all(fd.get(), image_));
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail("io", "sealing an input: " + errno_text(errno));
  }
  return fd;
}

Result<Handover::ReadBack> Handover::read_back(int memfd, Value& arguments) const {
  ReadBack seen;
  if (image_.empty()) return seen;
  std::string now(image_.size(), '\0');
  KZ_TRY(read_all(memfd, now.data(), now.size()));
  if (now == image_) return seen;
  const std::vector<Value*> tensors = tensors_of(arguments);
  uint64_t at = 0;  // poison from here to the next tensor
  const auto poisoned = [&](uint64_t from, uint64_t to) {
    return now.compare(from, to - from, image_, from, to - from) == 0;
  };
  for (size_t i = 0; i < placed_.size(); ++i) {
    const TensorRef& t = placed_[i];
    if (t.storage_bytes == 0) continue;
    if (!poisoned(at, t.address)) seen.out_of_bounds = true;
    at = t.address + t.storage_bytes;
    if (now.compare(t.address, t.storage_bytes, image_, t.address, t.storage_bytes) == 0) continue;
    seen.touched = true;
    tensors[i]->bytes =
        std::make_shared<const std::string>(gather(t, std::string_view(now).substr(t.address, t.storage_bytes)));
  }
  if (!poisoned(at, now.size())) seen.out_of_bounds = true;
  return seen;
}

}  // namespace kz::keck
