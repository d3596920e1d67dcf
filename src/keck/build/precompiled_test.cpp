// Precompiled headers while things go wrong around them: a killed server, a header removed by hand, one not made in
// time. On a state folder of its own, so each case makes the slim one anew (10 CPU-seconds).
#include "keck/build/precompiled.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "keck/build/broker.h"

namespace kz::keck {
namespace {

using ::testing::HasSubstr;

BuildRequest request_of(const std::string& source) {
  BuildRequest request;
  request.name = "kernel";
  request.backend = "cpp";
  request.cpp_sources = {source};
  request.functions = {"f"};
  request.cflags = {"-O3"};
  return request;
}

class PrecompiledTest : public ::testing::Test {
 protected:
  PrecompiledTest() : dir_(*TempDir::make(fs::temp_directory_path(), "kz-precompiled-")) {
    options_.layout = *find_layout();
    options_.layout.state = dir_.path() / "state";
    options_.cache = dir_.path() / "cache";
  }

  // Folders of precompiled headers whose name begins so.
  std::vector<fs::path> folders(const std::string& prefix) const {
    std::vector<fs::path> found;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(options_.layout.state / "headers", error))
      if (entry.is_directory(error) && entry.path().filename().string().rfind(prefix, 0) == 0)
        found.push_back(entry.path());
    return found;
  }

  // Compilers that name our state folder in their command line, other than `except`.
  std::vector<std::string> compilers(pid_t except = 0) const {
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
      const std::string pid = entry.path().filename().string();
      if (pid.find_first_not_of("0123456789") != std::string::npos || pid == std::to_string(except) ||
          pid == std::to_string(::getpid()))
        continue;
      const std::string line = read_file(entry.path() / "cmdline", 1 << 20).value_or("");
      if (line.find(options_.layout.state.string()) == std::string::npos) continue;
      if (line.find("c++-header") != std::string::npos || line.find("cc1plus") != std::string::npos)
        found.push_back(pid + " " + line);
    }
    return found;
  }

  template <typename Condition>
  static bool within(double seconds, Condition condition) {
    for (const Stopwatch watch; watch.seconds() < seconds; ::usleep(20000))
      if (condition()) return true;
    return condition();
  }

  TempDir dir_;
  BrokerOptions options_;
};

TEST_F(PrecompiledTest, AKilledServerLeavesNoCompilerAndNoFolder) {
  ASSERT_TRUE(write_file_atomic(dir_.path() / "a.cpp", "at::Tensor f(at::Tensor x) { return x; }"));
  const std::string program = (options_.layout.bin / "keck-build").string();
  const std::string state = "KERNELZERO_STATE=" + options_.layout.state.string();
  const std::string cache = options_.cache.string(), source = (dir_.path() / "a.cpp").string();
  std::vector<const char*> argv = {program.c_str(), "--cache", cache.c_str(), "--cflag=-O3", source.c_str(), nullptr};
  std::vector<const char*> environment = {state.c_str()};
  for (char** e = environ; *e != nullptr; ++e)
    if (std::string(*e).rfind("KERNELZERO_STATE=", 0) != 0) environment.push_back(*e);
  environment.push_back(nullptr);
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, program.c_str(), nullptr, nullptr, const_cast<char**>(argv.data()),
                          const_cast<char**>(environment.data())),
            0);
  // Both the driver and the compiler itself are at work.
  const bool working = within(300, [&] { return compilers(pid).size() >= 2 && !folders(".make-").empty(); });
  ::kill(pid, SIGKILL);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  ASSERT_TRUE(working);
  EXPECT_TRUE(within(5, [&] { return compilers().empty(); })) << ::testing::PrintToString(compilers());
  EXPECT_FALSE(folders(".make-").empty());

  options_.headers = "slim";
  const auto broker = BuildBroker::start(options_);  // makes the header again
  ASSERT_TRUE(broker) << broker.error().message;
  EXPECT_TRUE(folders(".make-").empty());
  EXPECT_EQ(folders("slim-").size(), 1u);
  EXPECT_TRUE((*broker)->build(request_of("at::Tensor f(at::Tensor x) { return x; }")).ok);

  // Removed by hand under a running server, as one of another version may: made again, no verdict on the candidate.
  fs::remove_all(folders("slim-").front());
  const auto again = (*broker)->build(request_of("at::Tensor f(at::Tensor x) { return x + 1; }"));
  EXPECT_TRUE(again.ok) << again.reason << again.log;
  EXPECT_EQ(again.headers, "slim");

  // The real headers' precompiled form takes minutes: what needs it is not judged without it.
  options_.headers = "auto";
  options_.cache = dir_.path() / "other";
  options_.precompile_wait_s = 0.3;
  {
    const auto hasty = BuildBroker::start(options_);
    ASSERT_TRUE(hasty) << hasty.error().message;
    const auto result = (*hasty)->build(request_of("at::Tensor f(at::Tensor x) { return x.index({0}); }"));
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.reason, "toolchain");
    EXPECT_THAT(result.log, HasSubstr("still being made"));
    EXPECT_FALSE(compilers().empty());
  }
  EXPECT_TRUE(within(5, [&] { return compilers().empty(); }));
}

}  // namespace
}  // namespace kz::keck
