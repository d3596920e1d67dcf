// Frames over a stream socket, with deadlines. The peer may send anything at any pace.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "keck/judge/protocol.h"

namespace kz::keck {
namespace {

constexpr size_t kMaxFds = 8;

// Waits until the socket is ready for `events`.
Status wait_for(int socket, short events, double deadline) {
  while (true) {
    const double left = deadline - steady_seconds();
    if (left <= 0) return fail("timeout", "no answer in time");
    pollfd p{socket, events, 0};
    const int rc = ::poll(&p, 1, static_cast<int>(std::min(std::ceil(left * 1e3), 1e9)));
    if (rc > 0) return {};
    if (rc < 0 && errno != EINTR) return fail("io", "poll: " + errno_text(errno));
  }
}

tl::unexpected<Error> socket_error(const char* what) {
  if (errno == EPIPE || errno == ECONNRESET) return fail("closed", "the other end is gone");
  return fail("io", std::string(what) + ": " + errno_text(errno));
}

void adopt_fds(msghdr& message, std::vector<Fd>& fds) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
}

// Fills `size` bytes at `data`.
Status receive_exactly(int socket, char* data, size_t size, std::vector<Fd>& fds, double deadline) {
  while (size > 0) {
    KZ_TRY(wait_for(socket, POLLIN, deadline));
    iovec io{data, size};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control;
    msghdr message{};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return socket_error("recvmsg");
    }
    adopt_fds(message, fds);
    if (n == 0) return fail("closed", "the other end is gone");
    data += n;
    size -= static_cast<size_t>(n);
  }
  return {};
}

}  // namespace

Status send_frame(int socket, FrameHeader header, std::string_view payload, const std::vector<int>& fds,
                  double deadline) {
  if (fds.size() > kMaxFds) return fail("protocol", "too many descriptors for one frame");
  header.size = static_cast<uint32_t>(payload.size());
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  size_t sent = 0;
  const size_t total = sizeof header + payload.size();
  while (sent < total) {
    iovec io[2];
    size_t parts = 0;
    if (sent < sizeof header) io[parts++] = {reinterpret_cast<char*>(&header) + sent, sizeof header - sent};
    const size_t skip = sent > sizeof header ? sent - sizeof header : 0;
    if (skip < payload.size()) io[parts++] = {const_cast<char*>(payload.data()) + skip, payload.size() - skip};
    msghdr message{};
    message.msg_iov = io;
    message.msg_iovlen = parts;
    if (sent == 0 && !fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
    }
    const ssize_t n = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      KZ_TRY(wait_for(socket, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return socket_error("sendmsg");
    }
  }
  return {};
}

Result<Frame> receive_frame(int socket, size_t max_payload, double deadline) {
  Frame frame;
  KZ_TRY(receive_exactly(socket, reinterpret_cast<char*>(&frame.header), sizeof frame.header, frame.fds, deadline));
  if (frame.header.magic != kFrameMagic) return fail("protocol", "a frame without its magic number");
  if (frame.header.size > max_payload) {
    return fail("protocol", "a frame of " + std::to_string(frame.header.size) + " bytes, over the limit");
  }
  // Grown as bytes arrive: a large claim alone costs nothing.
  size_t have = 0;
  while (have < frame.header.size) {
    const size_t step = std::min<size_t>(frame.header.size - have, 1u << 20);
    frame.payload.resize(have + step);
    KZ_TRY(receive_exactly(socket, frame.payload.data() + have, step, frame.fds, deadline));
    have += step;
  }
  return frame;
}

}  // namespace kz::keck
