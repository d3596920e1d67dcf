#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "keck/sandbox/slot_state.h"
#include "keck/sandbox/spec.h"
#include "keck/sandbox/task_files.h"

namespace kz::keck::sandbox {
namespace {

constexpr int kUidBlock = 256;  // uids of one pool: more than slots

// Uids that no person and no service has. Two pools of one host must not share one: the lock is a socket name, which
// the kernel drops with the process that holds it.
Result<uid_t> lock_uids(int slots, Fd* lock) {
  uid_t first = 1'803'157'504;  // far above what systems and containers hand out
  unsigned inside = 0, outside = 0, count = 0;
  const auto map = read_file("/proc/self/uid_map", 4096);
  if (map && std::sscanf(map->c_str(), "%u %u %u", &inside, &outside, &count) == 3 && count < first) first = 40000;
  if (slots > kUidBlock) return fail("config", "max_slots is over " + std::to_string(kUidBlock));
  for (int block = 0; block < 64; ++block) {
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const uid_t base = first + static_cast<uid_t>(block * kUidBlock);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = "kernelzero-uids-" + std::to_string(base);
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: starts with a zero
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0) {
      *lock = std::move(fd);
      return base;
    }
  }
  return fail("host", "64 sandboxes run on this host already: stop some `keck serve`");
}

bool others_can_enter(const fs::path& path) {
  struct stat st{};
  for (fs::path up = path; up.has_relative_path(); up = up.parent_path()) {
    if (::stat(up.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & S_IXOTH) == 0) return false;
  }
  return true;
}

}  // namespace

Result<std::array<Fd, 2>> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return fail("host", "no pipe: " + errno_text(errno));
  return std::array<Fd, 2>{Fd(fds[0]), Fd(fds[1])};
}

Result<std::string> first_report(int fd, double timeout_s) {
  pollfd p{fd, POLLIN, 0};
  int n = 0;
  while ((n = ::poll(&p, 1, static_cast<int>(timeout_s * 1000))) < 0 && errno == EINTR) {
  }
  if (n <= 0) return fail("host", "keck-init did not answer in time");
  char text[600];
  const ssize_t size = ::read(fd, text, sizeof text);
  if (size <= 0 || text[0] == 'R') return std::string();
  return std::string(text, static_cast<size_t>(size));
}

namespace {

Status make_template(const SlotPoolOptions& options, uid_t first_uid, Fd& executable, Spawned* holder, Fd* lifeline,
                     Fd* root_ns) {
  auto status = make_pipe();
  if (!status) return tl::unexpected(status.error());
  auto life = make_pipe();
  if (!life) return tl::unexpected(life.error());
  std::string text = "version=" + std::to_string(kSpecVersion) + "\nfirst_uid=" + std::to_string(first_uid) +
                     "\nuids=" + std::to_string(first_uid == 0 ? 0 : options.max_slots) +
                     "\nstatus_fd=1\nlife_fd=0\nkeep_proc=" + (options.capabilities.in_user_ns ? "1\n" : "0\n");
  for (const Bind& bind : options.read_only) {
    text += "read_only=" + bind.from.string() + (bind.to.empty() ? "" : "\t" + bind.to.string()) + "\n";
  }
  if (text.size() >= kSpecBytes) return fail("config", "too many folders for the sandbox");
  SpawnSpec spec;
  spec.executable = executable.get();
  spec.argv = {"keck-init", "template", text};
  spec.fds = {(*life)[0].get(), (*status)[1].get()};
  spec.namespaces = CLONE_NEWNS;
  auto child = spawn(spec);
  if (!child) return tl::unexpected(child.error());
  (*status)[1].reset();
  const auto report = first_report((*status)[0].get(), 10);
  if (!report || !report->empty()) {
    (*life)[1].reset();
    ::kill(child->pid, SIGKILL);
    reap(*child, 5);
    return fail("host", "the private root can't be made: " +
                            (report ? std::string(trim(report->substr(1))) : report.error().message));
  }
  *root_ns = Fd(::open(("/proc/" + std::to_string(child->pid) + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
  if (!*root_ns) return fail("host", "the private root's namespace can't be opened: " + errno_text(errno));
  *holder = std::move(*child);
  *lifeline = std::move((*life)[1]);
  return {};
}

// Scratch folders of weak pools whose daemon is gone.
void remove_stale_scratch(const fs::path& parent) {
  std::error_code ignored;
  struct stat st{};
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    int pid = 0;
    const std::string name = entry.path().filename();
    if (std::sscanf(name.c_str(), "keck-slots-%d-", &pid) != 1 || pid <= 0 || pid == ::getpid()) continue;
    if (::lstat(entry.path().c_str(), &st) != 0 || st.st_uid != ::geteuid() || !S_ISDIR(st.st_mode)) continue;
    if (::kill(pid, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), ignored);
  }
}

bool can_box(const Capabilities& c) {
  return c.private_root && c.mount_ns && c.pid_ns && c.net_ns && c.ipc_ns && c.uts_ns && c.pidfd;
}

}  // namespace

std::vector<Bind> base_binds() {
  std::vector<Bind> out;
  for (const char* path : {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache",
                           "/etc/alternatives", "/etc/localtime", "/sys/devices/system/cpu/online",
                           "/sys/devices/system/cpu/possible", "/sys/devices/system/cpu/present"}) {
    out.push_back({path, {}});
  }
  return out;
}

std::vector<Bind> worker_binds(const Layout& layout) {
  auto out = base_binds();
  std::error_code ignored;
  // The venv (bin/python lies in it), and where its interpreter really lives.
  for (const fs::path& python : {layout.python, fs::canonical(layout.python, ignored)}) {
    const fs::path prefix = python.parent_path().parent_path();
    if (prefix.has_relative_path() && prefix != "/usr" && prefix != "/usr/local") out.push_back({prefix, {}});
  }
  out.push_back({layout.worker, {}});
  out.push_back({layout.lib, {}});
  return out;
}

std::vector<Bind> toolchain_binds(const Layout& layout) {
  auto out = base_binds();
  out.push_back({layout.slim_headers, {}});
  return out;
}

Result<std::unique_ptr<SlotPool>> SlotPool::make(const SlotPoolOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  const Capabilities& caps = options.capabilities;
  for (const Bind& bind : options.read_only) {
    if ((bind.from.string() + bind.to.string()).find_first_of("\n\t") != std::string::npos) {
      return fail("config", "a folder of the sandbox has a line break in its name");
    }
  }
  const auto layout = find_layout();
  fs::path executable = options.init;
  if (executable.empty() && layout) executable = layout->bin / "keck-init";
  impl->init_executable = Fd(::open(executable.c_str(), O_PATH | O_CLOEXEC));
  if (!impl->init_executable)
    return fail("host", "keck-init is not at " + executable.string() + ": build it, or `make dist`");
  // "weak" on a host that could do better is asked for, so it is really weak.
  const bool strong_host = choose(caps, "strong").has_value();
  impl->boxes = can_box(caps) && (options.level == Level::kStrong || !strong_host);
  impl->switch_uid = caps.uid_switch && caps.vm_read_other_uid;
  if (!impl->boxes) {
    for (const Bind& bind : options.read_only) impl->switch_uid = impl->switch_uid && others_can_enter(bind.from);
  }
  if (impl->switch_uid) {
    auto uid = lock_uids(options.max_slots, &impl->uid_lock);
    if (!uid) return tl::unexpected(uid.error());
    impl->first_uid = *uid;
  }
  if (impl->boxes || options.level == Level::kStrong || !strong_host) impl->cgroups = CgroupBase::make(options.name);
  if (impl->boxes) {
    impl->own_pid_ns = Fd(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
    KZ_TRY(make_template(impl->options, impl->first_uid, impl->init_executable, &impl->template_holder,
                         &impl->template_lifeline, &impl->root_ns));
  } else {
    fs::path parent = impl->switch_uid || options.state.empty() ? fs::temp_directory_path() : options.state;
    remove_stale_scratch(parent);
    KZ_TRY(make_dirs(parent));
    auto scratch = TempDir::make(parent, "keck-slots-" + std::to_string(::getpid()) + "-");
    if (!scratch) return tl::unexpected(scratch.error());
    ::chmod(scratch->path().c_str(), 0711);
    impl->scratch = std::move(*scratch);
  }
  return std::unique_ptr<SlotPool>(new SlotPool(std::move(impl)));
}

SlotPool::SlotPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SlotPool::~SlotPool() {
  impl_->template_lifeline.reset();
  reap(impl_->template_holder, 5);
  impl_->reap_dying(5);
}

Level SlotPool::level() const { return impl_->options.level; }
const Capabilities& SlotPool::capabilities() const { return impl_->options.capabilities; }

Json SlotPool::describe() const {
  const Capabilities& c = impl_->options.capabilities;
  const bool box = impl_->boxes;
  const bool landlock = c.landlock_abi > 0;
  Json j;
  j["level"] = to_string(level());
  j["kill"] = impl_->cgroups.has_kill() ? "cgroup.kill" : box ? "pid namespace" : "pidfd";
  j["memory"] = impl_->cgroups.has_memory() ? "cgroup" : "rlimit";
  j["processes"] = impl_->cgroups.has_pids() ? "cgroup" : box ? "rlimit" : "refused";
  j["freeze"] = impl_->cgroups.has_freeze() ? "cgroup" : "signal";
  j["network"] = box ? "namespace, seccomp" : "seccomp";
  j["files"] = box ? "private root" : landlock ? "landlock" : "none";
  j["uid"] = impl_->switch_uid ? "slot" : "own";
  return j;
}

Result<std::unique_ptr<Place>> SlotPool::Impl::take_place() {
  std::unique_ptr<Place> place;
  {
    const std::scoped_lock lock(mutex);
    if (out >= options.max_slots)
      return fail("busy", "all " + std::to_string(options.max_slots) + " sandbox slots are in use");
    ++out;
    if (!free.empty()) {
      place = std::move(free.back());
      free.pop_back();
      return place;
    }
    place = std::make_unique<Place>();
    place->index = made++;
  }
  const auto failed = [&](Error error) -> Result<std::unique_ptr<Place>> {
    const std::scoped_lock lock(mutex);
    --out;
    return tl::unexpected(std::move(error));
  };
  place->uid = switch_uid ? first_uid + static_cast<uid_t>(place->index % kUidBlock) : ::geteuid();
  if (!cgroups.hierarchies().empty()) {
    auto group = Cgroup::make(cgroups, "s" + std::to_string(place->index));
    if (!group) return failed(group.error());
    place->cgroup = std::move(*group);
  }
  if (boxes) {
    // A thread can leave its net namespace alone; the new one lives on by the descriptor.
    std::thread([&] {
      if (::unshare(CLONE_NEWNET) == 0) place->net = Fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    }).join();
    if (!place->net) return failed({"host", "no net namespace for a slot: run `keck doctor`"});
  }
  return place;
}

void SlotPool::Impl::give_back(std::unique_ptr<Place> place, Spawned init) {
  const std::scoped_lock lock(mutex);
  --out;
  if (place) free.push_back(std::move(place));
  if (init.pid > 0) dying.push_back(std::move(init));
  std::erase_if(dying, [](const Spawned& child) { return reap(child, 0); });
}

uint64_t SlotPool::Impl::own_uid_tasks() {
  constexpr double kFreshSeconds = 5;  // a walk through /proc costs milliseconds
  const std::scoped_lock lock(mutex);
  if (steady_seconds() - uid_tasks_at > kFreshSeconds) {
    uid_tasks = tasks_of_uid(::geteuid());
    uid_tasks_at = steady_seconds();
  }
  return uid_tasks;
}

void SlotPool::Impl::reap_dying(double timeout_s) {
  const std::scoped_lock lock(mutex);
  for (const Spawned& child : dying) {
    if (!reap(child, timeout_s)) log::warn("a sandbox box did not end: pid " + std::to_string(child.pid));
  }
  dying.clear();
}

}  // namespace kz::keck::sandbox
