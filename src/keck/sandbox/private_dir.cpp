#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "keck/sandbox/run.h"
#include "keck/sandbox/slot_state.h"

namespace kz::keck::sandbox {
namespace {

struct OpenHow {
  uint64_t flags, mode, resolve;
};

// Never through a link, never out of the folder: the program may have put anything there.
Fd open_inside(int dir, std::string_view name, int flags, unsigned mode = 0) {
  constexpr uint64_t kNoMagicLinks = 0x02, kNoSymlinks = 0x04, kBeneath = 0x08;
  const OpenHow how{static_cast<uint64_t>(flags | O_CLOEXEC | O_NONBLOCK), mode,
                    kNoMagicLinks | kNoSymlinks | kBeneath};
  return Fd(static_cast<int>(::syscall(SYS_openat2, dir, std::string(name).c_str(), &how, sizeof how)));
}

tl::unexpected<Error> refused(std::string_view doing, std::string_view name) {
  return fail("io",
              "cannot " + std::string(doing) + " " + std::string(name) + " in a private folder: " + errno_text(errno));
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

PrivateDir::PrivateDir(PrivateDir&&) noexcept = default;
PrivateDir& PrivateDir::operator=(PrivateDir&&) noexcept = default;
PrivateDir::~PrivateDir() = default;

Result<PrivateDir> PrivateDir::make(SlotPool& pool, uint64_t bytes) {
  Limits limits;
  limits.tmp_bytes = bytes;
  auto slot = pool.acquire(limits);
  if (!slot) return tl::unexpected(slot.error());
  PrivateDir dir;
  dir.slot_ = std::move(*slot);
  const Slot::State& state = SlotAccess::state(*dir.slot_);
  if (state.folder) {
    dir.fd_ = state.folder.get();
    dir.inside_ = kWorkDir;
  } else {
    dir.host_ = Fd(::open(state.scratch->path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    dir.fd_ = dir.host_.get();
    dir.inside_ = state.scratch->path().string();
  }
  return dir;
}

Status PrivateDir::write(std::string_view name, std::string_view bytes) {
  const uid_t uid = slot_->uid();
  for (size_t slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/', slash + 1)) {
    const std::string folder(name.substr(0, slash));
    if (::mkdirat(fd_, folder.c_str(), 0700) != 0 && errno != EEXIST) return refused("make", folder);
    const Fd made = open_inside(fd_, folder, O_RDONLY | O_DIRECTORY);
    if (!made || (uid != ::geteuid() && ::fchown(made.get(), uid, uid) != 0)) return refused("make", folder);
  }
  const Fd file = open_inside(fd_, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!file || !write_all(file.get(), bytes)) return refused("write", name);
  if (uid != ::geteuid() && ::fchown(file.get(), uid, uid) != 0) return refused("give away", name);
  return {};
}

Result<std::string> PrivateDir::read(std::string_view name, uint64_t limit) const {
  const Fd file = open_inside(fd_, name, O_RDONLY);
  struct stat st{};
  if (!file || ::fstat(file.get(), &st) != 0) return refused("read", name);
  if (!S_ISREG(st.st_mode)) return fail("io", std::string(name) + " in a private folder is not a regular file");
  std::string bytes;
  char block[1 << 16];
  ssize_t n;
  while ((n = ::read(file.get(), block, sizeof block)) > 0) {
    bytes.append(block, static_cast<size_t>(n));
    if (bytes.size() > limit)
      return fail("io", std::string(name) + " is larger than " + std::to_string(limit) + " bytes");
  }
  if (n < 0) return refused("read", name);
  return bytes;
}

Result<Fd> PrivateDir::take(std::string_view name, uint64_t limit) const {
  const auto bytes = read(name, limit);
  if (!bytes) return tl::unexpected(bytes.error());
  Fd copy(::memfd_create("keck-artefact", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!copy || !write_all(copy.get(), *bytes) || ::lseek(copy.get(), 0, SEEK_SET) != 0 ||
      ::fcntl(copy.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return refused("copy", name);
  }
  return copy;
}

}  // namespace kz::keck::sandbox
