#include "keck/sandbox/private_root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <initializer_list>

namespace kz::keck::sandbox {
namespace {

// Where the new root is put together: a folder that every host has and that no bind comes from.
constexpr char kStage[] = "/proc";
constexpr off_t kCopyLimit = 4 << 20;  // files up to here are copied, larger ones bound

int failed(const char** what, const char* step) {
  *what = step;
  return errno != 0 ? -errno : -EINVAL;
}

bool make_parents(char* path) {
  for (char* slash = strchr(path + 1, '/'); slash != nullptr; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    const int status = mkdir(path, 0755);
    *slash = '/';
    if (status != 0 && errno != EEXIST) return false;
  }
  return true;
}

bool copy_file(int in, const char* to) {
  const int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
  if (out < 0) return false;
  char block[65536];
  ssize_t n;
  while ((n = read(in, block, sizeof block)) > 0) {
    if (write(out, block, static_cast<size_t>(n)) != n) n = -1;
    if (n < 0) break;
  }
  close(out);
  return n == 0;
}

bool bind_read_only(const char* from, const char* to) {
  if (mount(from, to, nullptr, MS_BIND | MS_REC, nullptr) != 0) return false;
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  return syscall(SYS_mount_setattr, AT_FDCWD, to, AT_RECURSIVE, &attributes, sizeof attributes) == 0;
}

// One entry "FROM" or "FROM<tab>TO". A source that is not there is no error: binds name what some hosts have.
bool add_entry(const char* entry) {
  char from[PATH_MAX], to[PATH_MAX];
  const char* tab = strchr(entry, '\t');
  const char* inside = tab == nullptr ? entry : tab + 1;
  snprintf(from, sizeof from, "%.*s", static_cast<int>(tab == nullptr ? strlen(entry) : tab - entry), entry);
  snprintf(to, sizeof to, "%s%s", kStage, inside);
  struct stat st{};
  if (lstat(from, &st) != 0) return errno == ENOENT || errno == EACCES;
  struct stat there{};
  if (lstat(to, &there) == 0 && !S_ISDIR(there.st_mode)) return true;  // named twice
  if (!make_parents(to)) return false;
  if (S_ISLNK(st.st_mode)) {
    char target[PATH_MAX];
    const ssize_t n = readlink(from, target, sizeof target - 1);
    if (n < 0) return false;
    target[n] = '\0';
    return symlink(target, to) == 0 || errno == EEXIST;
  }
  if (S_ISDIR(st.st_mode)) {
    if (mkdir(to, 0755) != 0 && errno != EEXIST) return false;
    return bind_read_only(from, to);
  }
  if (!S_ISREG(st.st_mode)) return true;
  const int in = open(from, O_RDONLY | O_CLOEXEC);
  if (in < 0) return errno == EACCES;
  const bool small = st.st_size <= kCopyLimit;
  const bool ok = small ? copy_file(in, to) : close(open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0444)) == 0;
  close(in);
  return ok && (small || bind_read_only(from, to));
}

bool write_text(const char* path, const char* text) {
  char to[PATH_MAX];
  snprintf(to, sizeof to, "%s%s", kStage, path);
  if (!make_parents(to)) return false;
  const int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
  if (fd < 0) return errno == EACCES || errno == EEXIST;
  const bool ok = write(fd, text, strlen(text)) == static_cast<ssize_t>(strlen(text));
  close(fd);
  return ok;
}

// Libraries look up their user: a slot's uid has a name.
bool write_users(const Spec& spec) {
  char passwd[32768] = "root:x:0:0::/:/bin/false\n", group[16384] = "root:x:0:\n";
  size_t p = strlen(passwd), g = strlen(group);
  for (uint64_t i = 0; i < spec.uids && p < sizeof passwd - 128 && g < sizeof group - 64; ++i) {
    const auto uid = static_cast<unsigned long>(spec.first_uid + i);
    p += static_cast<size_t>(snprintf(passwd + p, 128, "keck%lu:x:%lu:%lu::/tmp:/bin/false\n", i, uid, uid));
    g += static_cast<size_t>(snprintf(group + g, 64, "keck%lu:x:%lu:\n", i, uid));
  }
  return write_text("/etc/passwd", passwd) && write_text("/etc/group", group);
}

bool make_device(const char* path, unsigned minor_number) {
  char to[PATH_MAX];
  snprintf(to, sizeof to, "%s%s", kStage, path);
  if (mknod(to, S_IFCHR | 0666, makedev(1, minor_number)) == 0) return chmod(to, 0666) == 0;
  // Without CAP_MKNOD, as in a user namespace: the host's own node.
  const int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  close(fd);
  return mount(path, to, nullptr, MS_BIND, nullptr) == 0;
}

bool make_devices() {
  char dev[PATH_MAX];
  snprintf(dev, sizeof dev, "%s/dev", kStage);
  if (mkdir(dev, 0755) != 0 && errno != EEXIST) return false;
  bool ok = make_device("/dev/null", 3) && make_device("/dev/zero", 5) && make_device("/dev/full", 7) &&
            make_device("/dev/random", 8) && make_device("/dev/urandom", 9);
  const struct {
    const char *link, *target;
  } links[] = {{"fd", "/proc/self/fd"},
               {"stdin", "/proc/self/fd/0"},
               {"stdout", "/proc/self/fd/1"},
               {"stderr", "/proc/self/fd/2"},
               {"shm", "/tmp"}};
  for (const auto& l : links) {
    snprintf(dev, sizeof dev, "%s/dev/%s", kStage, l.link);
    ok = ok && symlink(l.target, dev) == 0;
  }
  return ok;
}

}  // namespace

int make_template(const Spec& spec, const char** what) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failed(what, "make mounts private");
  // The host's /proc is kept reachable before it is covered, for user namespaces.
  const int proc = spec.keep_proc ? static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, "/proc",
                                                             1U /* OPEN_TREE_CLONE */ | O_CLOEXEC | AT_RECURSIVE))
                                  : -1;
  if (spec.keep_proc && proc < 0) return failed(what, "clone /proc");
  umask(0);
  if (mount("keck", kStage, "tmpfs", MS_NOSUID, "size=64m,mode=0755") != 0) return failed(what, "mount the root");
  for (const char* folder : {"/proc/proc", "/proc/tmp", "/proc/etc"}) {
    if (mkdir(folder, 0755) != 0) return failed(what, "make folders");
  }
  if (!make_devices()) return failed(what, "make /dev");
  for (int i = 0; i < spec.n_read_only; ++i) {
    if (!add_entry(spec.read_only[i])) return failed(what, spec.read_only[i]);
  }
  if (!write_users(spec)) return failed(what, "write /etc");
  if (proc >= 0 && syscall(SYS_move_mount, proc, "", AT_FDCWD, "/proc/proc", 4U /* MOVE_MOUNT_F_EMPTY_PATH */) != 0) {
    return failed(what, "keep /proc");
  }
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  if (syscall(SYS_mount_setattr, AT_FDCWD, kStage, 0, &attributes, sizeof attributes) != 0) {
    return failed(what, "make the root read-only");
  }
  if (chdir(kStage) != 0) return failed(what, "chdir");
  // The old root lands below the new one's "." and is detached at once.
  if (syscall(SYS_pivot_root, ".", ".") != 0) return failed(what, "pivot_root");
  if (umount2(".", MNT_DETACH) != 0) return failed(what, "detach the old root");
  return chdir("/") == 0 ? 0 : failed(what, "chdir /");
}

int enter_private_root(const Spec& spec, const char** what) {
  if (setns(spec.root_fd, CLONE_NEWNS) != 0) return failed(what, "enter the template");
  if (unshare(CLONE_NEWNS) != 0) return failed(what, "copy the template");
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return failed(what, "mount /proc");
  if (syscall(SYS_move_mount, spec.tmp_fd, "", AT_FDCWD, "/tmp", 4U /* MOVE_MOUNT_F_EMPTY_PATH */) != 0) {
    return failed(what, "mount /tmp");
  }
  return 0;
}

}  // namespace kz::keck::sandbox
