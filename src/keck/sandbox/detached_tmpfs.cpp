#include "keck/sandbox/detached_tmpfs.h"

#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace kz::keck::sandbox {

Result<Fd> detached_tmpfs(uint64_t bytes, std::optional<uid_t> uid) {
  const auto refused = [] { return fail("host", "no private tmpfs: " + errno_text(errno)); };
  const Fd context(static_cast<int>(::syscall(SYS_fsopen, "tmpfs", 1U /* FSOPEN_CLOEXEC */)));
  if (!context) return refused();
  const auto set = [&](const char* key, const std::string& value) {
    return ::syscall(SYS_fsconfig, context.get(), 1U /* SET_STRING */, key, value.c_str(), 0) == 0;
  };
  bool ok = set("size", std::to_string(bytes)) && set("mode", "0700") && set("nr_inodes", "100000");
  if (uid) ok = ok && set("uid", std::to_string(*uid)) && set("gid", std::to_string(*uid));
  if (!ok || ::syscall(SYS_fsconfig, context.get(), 6U /* CMD_CREATE */, nullptr, nullptr, 0) != 0) return refused();
  Fd root(static_cast<int>(::syscall(SYS_fsmount, context.get(), 1U /* FSMOUNT_CLOEXEC */, MS_NOSUID | MS_NODEV)));
  return root ? Result<Fd>(std::move(root)) : refused();
}

}  // namespace kz::keck::sandbox
