#include "keck/sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

namespace kz::keck::sandbox {
namespace {

constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3;
constexpr uint64_t kTruncate = 1 << 14;
constexpr uint64_t kReadOnly = kExecute | kReadFile | kReadDir;
constexpr uint64_t kFileRights = kExecute | kWriteFile | kReadFile | kTruncate;  // those that a rule on a file may name
constexpr uint64_t kScopeAbstractUnix = 1 << 0, kScopeSignal = 1 << 1;

struct RulesetAttributes {
  uint64_t handled_fs, handled_net, scoped;
};
struct __attribute__((packed)) PathBeneath {
  uint64_t allowed;
  int32_t parent_fd;
};

uint64_t all_fs_rights(int abi) {
  int bits = 13;            // ABI 1
  if (abi >= 2) bits = 14;  // refer
  if (abi >= 3) bits = 15;  // truncate
  if (abi >= 5) bits = 16;  // ioctl on devices
  return (1ULL << bits) - 1;
}

int allow(int ruleset, const char* path, uint64_t rights) {
  const int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT || errno == EACCES ? 0 : -errno;
  struct stat st{};
  if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode)) rights &= kFileRights;
  const PathBeneath rule{rights, fd};
  const long status = syscall(kAddRule, ruleset, 1 /* LANDLOCK_RULE_PATH_BENEATH */, &rule, 0);
  const int error = errno;
  close(fd);
  return status == 0 ? 0 : -error;
}

}  // namespace

int landlock_abi() {
  const long abi = syscall(kCreateRuleset, nullptr, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

int restrict_files(const Spec& spec) {
  const int abi = landlock_abi();
  if (abi == 0) return -ENOSYS;
  RulesetAttributes attributes{all_fs_rights(abi), abi >= 4 ? 3ULL : 0, 0};
  if (abi >= 6) attributes.scoped = kScopeAbstractUnix | kScopeSignal;
  const size_t size = abi >= 6 ? sizeof attributes : abi >= 4 ? 16 : 8;
  const int ruleset = static_cast<int>(syscall(kCreateRuleset, &attributes, size, 0));
  if (ruleset < 0) return -errno;
  int status = 0;
  const auto add = [&](const char* path, uint64_t rights) {
    if (status == 0) status = allow(ruleset, path, rights & attributes.handled_fs);
  };
  for (int i = 0; i < spec.n_read_only; ++i) add(spec.read_only[i], kReadOnly);
  for (int i = 0; i < spec.n_read_write; ++i) add(spec.read_write[i], ~0ULL);
  for (const char* path : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}) {
    add(path, kReadFile | kWriteFile);
  }
  // What the C library and torch look up about themselves and the processors; nothing of other processes.
  for (const char* path : {"/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu"}) {
    add(path, kReadFile | kReadDir);
  }
  if (status == 0 && syscall(kRestrictSelf, ruleset, 0) != 0) status = -errno;
  close(ruleset);
  return status;
}

}  // namespace kz::keck::sandbox
