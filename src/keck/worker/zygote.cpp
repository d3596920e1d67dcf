#include "keck/worker/zygote.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "keck/judge/protocol.h"

namespace kz::keck {
namespace {

constexpr double kForkSeconds = 30;
constexpr size_t kMaxControl = 1 << 20;
constexpr double kForever = 1e18;

FrameHeader header(WorkerFrame type) { return {.type = static_cast<uint16_t>(type)}; }

std::string tail_of(const fs::path& log) {
  auto text = read_file(log);
  if (!text) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  const size_t at = text->rfind('\n');
  return at == std::string::npos ? *text : text->substr(at + 1);
}

// The interpreter with our control socket as descriptor 3, no environment of ours and its words in `log`.
Result<pid_t> spawn(const ZygoteOptions& options, int control) {
  std::vector<std::string> env = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                  "HOME=/tmp",
                                  "LANG=C.UTF-8",
                                  "TMPDIR=/tmp",
                                  "PYTHONPATH=" + options.layout.worker.string(),
                                  "PYTHONUNBUFFERED=1",
                                  "PYTHONNOUSERSITE=1",
                                  "CUDA_MODULE_LOADING=LAZY"};
  std::vector<std::string> argv = {options.layout.python.string(), "-P", "-m", "keck_worker.zygote"};
  const auto pointers = [](std::vector<std::string>& strings) {
    std::vector<char*> out;
    for (auto& s : strings) out.push_back(s.data());
    out.push_back(nullptr);
    return out;
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, options.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_adddup2(&actions, control, 3);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (int s : {SIGPIPE, SIGINT, SIGTERM, SIGCHLD}) sigaddset(&defaults, s);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  // A group of its own: a Ctrl-C on the terminal is the daemon's to handle.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, argv[0].c_str(), &actions, &attributes, pointers(argv).data(), pointers(env).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail("host", "can't start " + argv[0] + ": " + errno_text(error));
  return pid;
}

}  // namespace

Result<std::unique_ptr<Zygote>> Zygote::start(const ZygoteOptions& options) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return fail("host", "socketpair: " + errno_text(errno));
  Fd ours(pair[0]);
  // Above 3, so that the dup2 of the spawn clears its close-on-exec flag.
  Fd theirs(fcntl(pair[1], F_DUPFD_CLOEXEC, 10));
  ::close(pair[1]);
  KZ_TRY(make_dirs(options.log.parent_path()));
  KZ_ASSIGN(const pid_t pid, spawn(options, theirs.get()));
  theirs.reset();
  auto zygote = std::unique_ptr<Zygote>(new Zygote());
  zygote->pid_ = pid;
  zygote->control_ = std::move(ours);
  const Json init = {{"interpret", options.interpret},
                     {"shim", options.shim.string()},
                     {"catalogue", options.catalogue},
                     {"sandbox", (options.layout.lib / "libkeck_child.so").string()}};
  const double deadline = steady_seconds() + options.start_s;
  const auto explain = [&](const Error& error) {
    const std::string words = tail_of(options.log);
    return fail("host", "the zygote did not start: " + error.message + "; its log " + options.log.string() +
                            (words.empty() ? " is empty" : " ends with: " + words));
  };
  if (auto sent = send_frame(zygote->control_.get(), header(WorkerFrame::kInit), dump_json(init), {}, deadline); !sent)
    return explain(sent.error());
  auto frame = receive_frame(zygote->control_.get(), kMaxControl, deadline);
  if (!frame) return explain(frame.error());
  KZ_ASSIGN(zygote->ready_, parse_json(frame->payload, "zygote"));
  zygote->reader_ = std::thread([z = zygote.get()] { z->read_loop(); });
  return zygote;
}

Zygote::~Zygote() {
  if (control_) ::shutdown(control_.get(), SHUT_RDWR);  // it sees the end of its socket, kills its children and goes
  if (reader_.joinable()) reader_.join();
  if (pid_ <= 0) return;
  for (int i = 0; i < 200; ++i) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
    usleep(10'000);
  }
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Zygote::read_loop() {
  for (;;) {
    auto frame = receive_frame(control_.get(), kMaxControl, kForever);
    Result<Json> body = frame ? parse_json(frame->payload, "zygote") : tl::unexpected(frame.error());
    std::lock_guard lock(mutex_);
    if (!body) {
      gone_ = true;
      changed_.notify_all();
      return;
    }
    const uint64_t id = body->value("id", uint64_t{0});
    const auto type = static_cast<WorkerFrame>(frame->header.type);
    if (type == WorkerFrame::kForked) {
      Entry& entry = entries_[id];
      if (body->value("pid", 0) > 0 && frame->fds.size() == 1)
        entry.forked = Forked{id, body->value("pid", 0), std::move(frame->fds[0])};
      else
        entry.forked = fail("zygote", body->value("error", "no pidfd"));
    } else if (type == WorkerFrame::kExited) {
      // Told also for children whose owner has gone; those entries are few and go with the zygote.
      if (auto it = entries_.find(id); it != entries_.end())
        it->second.exited =
            Exited{body->value("status", 0), body->value("cpu_seconds", 0.0), body->value("max_rss_kb", uint64_t{0})};
    }
    changed_.notify_all();
  }
}

Result<Forked> Zygote::fork(const std::string& spec, int channel, int build, int log) {
  uint64_t id = 0;
  {
    std::lock_guard lock(mutex_);
    if (gone_) return fail("zygote", "the zygote is gone");
    id = next_++;
    ++forks_;
    entries_[id];
  }
  {
    std::lock_guard lock(write_mutex_);
    const Json request = {{"id", id}, {"spec", spec}};
    if (auto sent = send_frame(control_.get(), header(WorkerFrame::kFork), dump_json(request), {channel, build, log},
                               steady_seconds() + kForkSeconds);
        !sent)
      return fail("zygote", sent.error().message);
  }
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(kForkSeconds), [&] { return gone_ || entries_[id].forked; });
  if (!entries_[id].forked) {
    entries_.erase(id);
    return fail("zygote", gone_ ? "the zygote is gone" : "the zygote does not answer");
  }
  Result<Forked> result = std::move(*entries_[id].forked);
  if (!result) entries_.erase(id);
  return result;
}

std::optional<Exited> Zygote::wait_exit(uint64_t id, double timeout_s) {
  std::unique_lock lock(mutex_);
  const auto told = [&] {
    const auto it = entries_.find(id);
    return gone_ || it == entries_.end() || it->second.exited.has_value();
  };
  changed_.wait_for(lock, std::chrono::duration<double>(timeout_s), told);
  const auto it = entries_.find(id);
  if (it == entries_.end() || !it->second.exited) return std::nullopt;
  const Exited exited = *it->second.exited;
  entries_.erase(it);
  return exited;
}

bool Zygote::alive() const {
  std::lock_guard lock(mutex_);
  return !gone_;
}

uint64_t Zygote::forks() const {
  std::lock_guard lock(mutex_);
  return forks_;
}

}  // namespace kz::keck
