// keck-init: the first process of a box, and the last step before a confined program. Static and tiny; started by the
// daemon only, with its orders (spec.h) as argv[2].
//   template  makes the private root and holds it until the lifeline ends
//   box       PID 1 of a box: makes its mounts, then reaps until the lifeline ends, and the box with it
//   join      enters a box, locks itself in and becomes the program
//   watch     level weak: runs the program below itself, kills what it leaves behind
// It reports over status_fd: 'R' ready, 'H' + text the host failed, 'X' + text the program can't be executed, 'S' + int
// wait status.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keck/sandbox/lockdown.h"
#include "keck/sandbox/private_root.h"

using namespace kz::keck::sandbox;

namespace {

[[noreturn]] void give_up(const Spec& spec, char kind, const char* what, int status) {
  char line[512];
  const int n = snprintf(line, sizeof line, "%c%s: %s\n", kind, what, strerror(-status));
  if (spec.status_fd >= 0 && write(spec.status_fd, line, static_cast<size_t>(n)) < 0) _exit(72);
  _exit(kind == 'X' ? 127 : 71);
}

void ready(const Spec& spec) {
  if (write(spec.status_fd, "R", 1) != 1) _exit(72);
}

void wait_for_the_end(const Spec& spec) {
  char byte;
  while (read(spec.life_fd, &byte, 1) > 0 || errno == EINTR) errno = 0;
}

[[noreturn]] void run_template(const Spec& spec) {
  const char* what = "";
  if (const int s = make_template(spec, &what); s != 0) give_up(spec, 'H', what, s);
  ready(spec);
  wait_for_the_end(spec);
  _exit(0);
}

[[noreturn]] void run_box(const Spec& spec) {
  const char* what = "";
  signal(SIGCHLD, SIG_IGN);  // orphans of the box are reaped by the kernel
  if (spec.net_fd >= 0 && setns(spec.net_fd, CLONE_NEWNET) != 0) give_up(spec, 'H', "enter the net namespace", -errno);
  if (const int s = enter_private_root(spec, &what); s != 0) give_up(spec, 'H', what, s);
  const int keep[] = {spec.status_fd, spec.life_fd};
  if (const int s = close_descriptors(keep, 2, &what); s != 0) give_up(spec, 'H', what, s);
  Spec own;  // no uid, no limits: only what a process that does nothing can do without
  if (const int s = drop_privileges(own, &what); s != 0) give_up(spec, 'H', what, s);
  prctl(PR_SET_PDEATHSIG, 0);  // the thread that made us may end before the box
  prctl(PR_SET_DUMPABLE, 0);   // in a user namespace the child has our uid
  prctl(PR_SET_NAME, "keck-box");
  ready(spec);
  wait_for_the_end(spec);
  _exit(0);
}

// Locks this process in and executes the program; returns only on failure.
void become(const Spec& spec, char** argv) {
  const char* what = "";
  sock_filter filter[kFilterCapacity];
  FilterOptions options;
  options.processes = spec.processes;
  options.foreign_signals = spec.foreign_signals;
  const size_t length = build_filter(options, filter, kFilterCapacity);
  const int keep[] = {0, 1, 2, spec.status_fd};
  if (const int s = close_descriptors(keep, 4, &what); s != 0) give_up(spec, 'H', what, s);
  fcntl(spec.status_fd, F_SETFD, FD_CLOEXEC);
  if (const int s = drop_privileges(spec, &what); s != 0) give_up(spec, 'H', what, s);
  if (const int s = load_filter(filter, length); s != 0) give_up(spec, 'H', "seccomp", s);
  execve(argv[0], argv, environ);
  give_up(spec, 'X', argv[0], -errno);
}

[[noreturn]] void run_join(const Spec& spec, char** argv) {
  const char* what = "";
  setsid();
  if (const int s = join_cgroups(spec, &what); s != 0) give_up(spec, 'H', what, s);
  if (const int s = join_box(spec.box_fd, &what); s != 0) give_up(spec, 'H', what, s);
  become(spec, argv);
  _exit(71);
}

// Kills children until there are none: orphans become ours (subreaper), so every pass reaches the next generation.
void kill_below() {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(getpid()));
  for (;;) {
    char text[4096] = {};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    char* at = text;
    for (long pid = n > 0 ? strtol(at, &at, 10) : 0; pid > 1; pid = strtol(at, &at, 10))
      kill(static_cast<pid_t>(pid), SIGKILL);
    for (;;) {
      const pid_t reaped = waitpid(-1, nullptr, WNOHANG);
      if (reaped < 0 && errno == ECHILD) return;
      if (reaped <= 0) break;
    }
    usleep(500);
  }
}

[[noreturn]] void run_watch(const Spec& spec, char** argv) {
  const char* what = "";
  setsid();
  if (const int s = join_cgroups(spec, &what); s != 0) give_up(spec, 'H', what, s);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_DUMPABLE, 0);
  sigset_t chld;
  sigemptyset(&chld);
  sigaddset(&chld, SIGCHLD);
  sigprocmask(SIG_BLOCK, &chld, nullptr);
  const int events = signalfd(-1, &chld, SFD_CLOEXEC);
  const pid_t program = fork();
  if (program < 0) give_up(spec, 'H', "fork", -errno);
  if (program == 0) {
    sigprocmask(SIG_UNBLOCK, &chld, nullptr);
    setsid();
    become(spec, argv);
    _exit(71);
  }
  for (int fd = 0; fd < 3; ++fd) close(fd);
  for (int status = 0;;) {
    pollfd fds[] = {{events, POLLIN, 0}, {spec.life_fd, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
    if (fds[1].revents != 0) break;
    signalfd_siginfo info;
    if (fds[0].revents != 0 && read(events, &info, sizeof info) < 0) break;
    bool ended = false;
    for (;;) {
      int s = 0;
      const pid_t pid = waitpid(-1, &s, WNOHANG);
      if (pid <= 0) break;
      if (pid == program) ended = true, status = s;
    }
    if (!ended) continue;
    kill_below();
    char report[1 + sizeof status] = {'S'};
    memcpy(report + 1, &status, sizeof status);
    _exit(write(spec.status_fd, report, sizeof report) < 0 ? 72 : 0);
  }
  kill_below();
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  Spec spec;
  if (argc < 3 || !parse_spec(argv[2], &spec)) {
    dprintf(2, "keck-init is started by keck, not by hand\n");
    return 2;
  }
  signal(SIGPIPE, SIG_DFL);
  const char* mode = argv[1];
  if (strcmp(mode, "template") == 0) run_template(spec);
  if (strcmp(mode, "box") == 0) run_box(spec);
  if (strcmp(mode, "join") == 0 && argc > 3) run_join(spec, argv + 3);
  if (strcmp(mode, "watch") == 0 && argc > 3) run_watch(spec, argv + 3);
  return 2;
}
