#include "keck/worker/build_service.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

#include "base/clock.h"
#include "keck/judge/protocol.h"
#include "keck/worker/object_check.h"
#include "keck/worker/zygote.h"

namespace kz::keck {
namespace {

constexpr double kFrameSeconds = 5;  // a request is there at once or its sender is at fault
constexpr size_t kLogBytes = 64 << 10;

Result<std::vector<std::string>> texts(const Json& body, const char* key) {
  std::vector<std::string> out;
  const auto it = body.find(key);
  if (it == body.end() || !it->is_array()) return fail("protocol", std::string(key) + " is no array");
  for (const Json& item : *it) {
    if (!item.is_string()) return fail("protocol", std::string(key) + " holds something that is no string");
    out.push_back(item.get<std::string>());
  }
  return out;
}

}  // namespace

Result<BuildRequest> build_request_from_json(const Json& body) {
  BuildRequest request;
  if (!body.is_object()) return fail("protocol", "a build request is an object");
  for (const auto& [key, field] : {std::pair{"name", &request.name}, std::pair{"backend", &request.backend}}) {
    const auto it = body.find(key);
    if (it == body.end() || !it->is_string()) return fail("protocol", std::string(key) + " is no string");
    *field = it->get<std::string>();
  }
  if (request.backend != "cpp" && request.backend != "cuda") return fail("protocol", "unknown backend");
  KZ_ASSIGN(request.cpp_sources, texts(body, "cpp_sources"));
  KZ_ASSIGN(request.cuda_sources, texts(body, "cuda_sources"));
  KZ_ASSIGN(request.functions, texts(body, "functions"));
  KZ_ASSIGN(request.cflags, texts(body, "cflags"));
  KZ_ASSIGN(request.cuda_cflags, texts(body, "cuda_cflags"));
  KZ_ASSIGN(request.ldflags, texts(body, "ldflags"));
  if (const auto it = body.find("implicit_headers"); it != body.end()) {
    if (!it->is_boolean()) return fail("protocol", "implicit_headers is no truth value");
    request.implicit_headers = it->get<bool>();
  }
  return request;
}

BuildService::BuildService(Fd socket, Fd log, const BuildLimits& limits, Build build, std::function<void()> doom)
    : socket_(std::move(socket)),
      log_(std::move(log)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      limits_(limits),
      build_(std::move(build)),
      doom_(std::move(doom)) {
  fcntl(log_.get(), F_SETFL, O_NONBLOCK);
  thread_ = std::thread([this] { loop(); });
}

BuildService::~BuildService() { stop(); }

void BuildService::stop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void BuildService::loop() {
  std::array<pollfd, 3> fds = {pollfd{wake_.get(), POLLIN, 0}, pollfd{log_.get(), POLLIN, 0},
                               pollfd{socket_.get(), POLLIN, 0}};
  while (!stop_) {
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[1].revents != 0 && !drain()) fds[1].fd = -1;
    if (fds[2].revents != 0 && !answer()) fds[2].fd = -1;
  }
  drain();
}

bool BuildService::drain() {
  std::string buffer(kLogBytes, '\0');
  // One buffer a turn, so that a flood leaves this thread to other work; the rest is there at the next.
  const ssize_t n = ::read(log_.get(), buffer.data(), buffer.size());
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  uint64_t total = 0;
  {
    std::lock_guard lock(mutex_);
    capture_.append(std::string_view(buffer.data(), static_cast<size_t>(n)));
    total = capture_.total();
  }
  if (total <= limits_.output_bytes) return true;
  flooded_ = true;
  doom_();
  return false;
}

bool BuildService::answer() {
  const auto violate = [&](std::string what) {
    {
      std::lock_guard lock(mutex_);
      violation_ = std::move(what);
    }
    doom_();
    return false;
  };
  auto frame = receive_frame(socket_.get(), limits_.request_bytes, steady_seconds() + kFrameSeconds);
  if (!frame) return frame.error().code == "closed" ? false : violate("build socket: " + frame.error().message);
  if (frame->header.type != static_cast<uint16_t>(WorkerFrame::kBuild) || !frame->fds.empty())
    return violate("build socket: a frame of type " + std::to_string(frame->header.type));
  auto body = parse_json(frame->payload, "build request");
  auto request = body ? build_request_from_json(*body) : tl::unexpected(body.error());
  if (!request) return violate(request.error().message);

  BuildResult result;
  const BuildTotals before = totals();
  if (before.builds >= limits_.builds) {
    result.reason = "too_many_builds";
    result.log = "more than " + std::to_string(limits_.builds) + " extensions in one candidate";
  } else if (before.cpu_seconds >= limits_.cpu_seconds) {
    result.reason = "timeout";
    result.log = "the compilers have used " + std::to_string(before.cpu_seconds) + " CPU-seconds for this candidate";
  } else {
    {
      std::lock_guard lock(mutex_);
      building_since_ = steady_seconds();
    }
    result = build_(*request);
  }
  note(result);
  if (result.ok) inspect(result.object.get());
  const Json reply = {
      {"ok", result.ok}, {"reason", result.reason}, {"log", result.log}, {"module_name", result.module_name}};
  std::vector<int> fds;
  if (result.ok) fds.push_back(result.object.get());
  return send_frame(socket_.get(), {.type = static_cast<uint16_t>(WorkerFrame::kBuilt), .seq = frame->header.seq},
                    dump_json(reply), fds, steady_seconds() + kFrameSeconds)
      .has_value();
}

void BuildService::note(const BuildResult& result) {
  std::lock_guard lock(mutex_);
  const bool failed_before = !totals_.failed_reason.empty();
  ++totals_.builds;
  if (building_since_ > 0) totals_.seconds += steady_seconds() - building_since_;
  building_since_ = 0;
  totals_.cpu_seconds += result.cpu_seconds;
  if (totals_.headers != "full" && !result.headers.empty()) totals_.headers = result.headers;
  if (totals_.cache != "miss" && !result.cache.empty()) totals_.cache = result.cache;
  if (failed_before) return;
  totals_.log = result.log;
  if (!result.ok) totals_.failed_reason = result.reason.empty() ? "compile_error" : result.reason;
}

void BuildService::inspect(int object) {
  auto borrowed = borrowed_compute(object);
  std::lock_guard lock(mutex_);
  if (totals_.borrowed.empty())
    totals_.borrowed = borrowed ? *borrowed : "what can't be read: " + borrowed.error().message;
}

BuildTotals BuildService::totals() const {
  std::lock_guard lock(mutex_);
  return totals_;
}

double BuildService::build_seconds() const {
  std::lock_guard lock(mutex_);
  return totals_.seconds + (building_since_ > 0 ? steady_seconds() - building_since_ : 0);
}

std::string BuildService::log_text() const {
  std::lock_guard lock(mutex_);
  return capture_.text();
}

}  // namespace kz::keck
