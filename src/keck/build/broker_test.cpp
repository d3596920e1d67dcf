// Real builds: g++ in the real sandbox. The precompiled header is made by the first run on a host (10 CPU-seconds).
#include "keck/build/broker.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <thread>

#include "base/clock.h"
#include "keck/build/outcome.h"

namespace kz::keck {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

BuildRequest request_of(const std::string& source, std::vector<std::string> functions = {"f"}) {
  BuildRequest request;
  request.name = "kernel";
  request.backend = "cpp";
  request.cpp_sources = {source};
  request.functions = std::move(functions);
  request.cflags = {"-O3"};
  return request;
}

class BrokerTest : public ::testing::Test {
 protected:
  BrokerTest() : dir_(*TempDir::make(fs::temp_directory_path(), "kz-broker-")) {}

  std::unique_ptr<BuildBroker> start(double cpu_limit = 60, uint64_t memory_mb = 2048) {
    BrokerOptions options;
    options.layout = *find_layout();
    options.cache = dir_.path();
    options.headers = "slim";  // the full side is in the slow tests
    options.cpu_limit_s = cpu_limit;
    options.memory_mb = memory_mb;
    auto broker = BuildBroker::start(options);
    EXPECT_TRUE(broker) << broker.error().message;
    return broker ? std::move(*broker) : nullptr;
  }
  TempDir dir_;
};

TEST_F(BrokerTest, BuildsASealedObjectOnceAndKeepsIt) {
  const auto request = request_of("at::Tensor f(at::Tensor x) { return x + 1; }");
  auto broker = start();
  ASSERT_TRUE(broker);
  const BuildResult first = broker->build(request);
  ASSERT_TRUE(first.ok) << first.log;
  EXPECT_EQ(first.headers, "slim");
  EXPECT_EQ(first.cache, "miss");
  EXPECT_EQ(first.module_name, "kernel");
  EXPECT_GT(first.cpu_seconds, 0);
  EXPECT_EQ(read_all(first.object).substr(0, 4), "\177ELF");
  EXPECT_EQ(::fcntl(first.object.get(), F_GET_SEALS), F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  broker = start();  // another run on the same folder
  const BuildResult again = broker->build(request);
  EXPECT_EQ(again.cache, "hit");
  EXPECT_EQ(again.cpu_seconds, 0);
  EXPECT_EQ(read_all(again.object), read_all(first.object));
}

TEST_F(BrokerTest, ThoseWhoAskForTheSameAtOnceShareOneBuild) {
  const auto broker = start();
  ASSERT_TRUE(broker);
  const auto request = request_of("at::Tensor f(at::Tensor x) { return x * 2; }");
  std::vector<BuildResult> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = broker->build(request); });
  for (auto& thread : threads) thread.join();
  int misses = 0;
  for (const auto& result : results) {
    EXPECT_TRUE(result.ok) << result.log;
    EXPECT_TRUE(result.object);
    misses += result.cache == "miss" ? 1 : 0;
  }
  EXPECT_EQ(misses, 1);
  EXPECT_EQ(broker->statistics()["misses"], 1);
}

TEST_F(BrokerTest, ErrorsPointIntoTheSource) {
  const auto broker = start();
  ASSERT_TRUE(broker);
  const BuildResult result = broker->build(request_of("at::Tensor f(at::Tensor x) {\n  return x +;\n}"));
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.reason, "compile_error");
  EXPECT_EQ(result.headers, "slim");
  EXPECT_THAT(result.log, HasSubstr("cpp_sources[0]:2:13: error: expected primary-expression"));
  EXPECT_THAT(result.log, HasSubstr("return x +;"));
  EXPECT_EQ(broker->build(request_of("at::Tensor f(at::Tensor x) {\n  return x +;\n}")).cache, "hit");
}

TEST_F(BrokerTest, WhatIsRefusedBeforeACompilerRuns) {
  const auto broker = start();
  ASSERT_TRUE(broker);
  auto request = request_of("at::Tensor f(at::Tensor x) { return x; }");
  request.cflags = {"-fplugin=/tmp/x.so"};
  EXPECT_EQ(broker->build(request).reason, "forbidden_flag");
  request.cflags = {"-O3 -I/etc"};  // one string, two words for the compiler
  EXPECT_EQ(broker->build(request).reason, "forbidden_flag");
  request.cflags = {};
  request.name = "my-kernel";
  EXPECT_EQ(broker->build(request).reason, "compile_error");
  request.name = "kernel";
  request.backend = "cuda";
  EXPECT_EQ(broker->build(request).reason, "toolchain");
}

TEST_F(BrokerTest, AHostFileIsNotThere) {
  const auto broker = start();
  ASSERT_TRUE(broker);
  const auto include =
      broker->build(request_of("#include \"/etc/hostname\"\nat::Tensor f(at::Tensor x) { return x; }"));
  EXPECT_FALSE(include.ok);
  EXPECT_THAT(include.log, AnyOf(HasSubstr("No such file"), HasSubstr("Permission denied")));
  const auto incbin = broker->build(
      request_of("__asm__(\".incbin \\\"/etc/hostname\\\"\");\nat::Tensor f(at::Tensor x) { return x; }"));
  EXPECT_FALSE(incbin.ok);
  EXPECT_THAT(incbin.log, AnyOf(HasSubstr("No such file"), HasSubstr("not found")));
}

TEST_F(BrokerTest, BombsEndAtALimit) {
  const auto broker = start(/*cpu_limit=*/6, /*memory_mb=*/700);
  ASSERT_TRUE(broker);
  const Stopwatch watch;
  const auto recursion =
      broker->build(request_of("template <int N> struct R { static const int v = R<N + 1>::v; };\n"
                               "int f(double) { return R<0>::v; }"));
  EXPECT_FALSE(recursion.ok);
  const auto itself = broker->build(request_of("#include __FILE__\nint f(double) { return 0; }"));
  EXPECT_FALSE(itself.ok);
  const auto array = broker->build(request_of("char a[1ull << 36] = {1};\nint f(double x) { return a[(int)x]; }"));
  EXPECT_FALSE(array.ok);
  // `as` writes more than a file may hold and dies by the signal for that, or the linker finds no room.
  EXPECT_THAT(array.reason, AnyOf("memory", "link_error")) << array.log << array.fallback;
  std::string macros = "#define A0 x + x\n";
  for (int i = 1; i < 34; ++i)
    macros += "#define A" + std::to_string(i) + " A" + std::to_string(i - 1) + " + A" + std::to_string(i - 1) + "\n";
  const auto expansion = broker->build(request_of(macros + "double f(double x) { return A33; }"));
  EXPECT_FALSE(expansion.ok);
  EXPECT_THAT(expansion.reason, AnyOf("memory", "timeout"));
  const auto forever = broker->build(
      request_of("constexpr long spin(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i; return s; }\n"
                 "template <long N> struct S { static constexpr long v = spin(200000 + N) + S<N - 1>::v; };\n"
                 "template <> struct S<0> { static constexpr long v = 0; };\nlong f(double) { return S<800>::v; }"));
  EXPECT_FALSE(forever.ok);
  EXPECT_THAT(forever.reason, AnyOf("memory", "timeout"));
  // The next one is none the worse.
  EXPECT_TRUE(broker->build(request_of("at::Tensor f(at::Tensor x) { return x; }")).ok);
}

TEST_F(BrokerTest, FilesOfLoadAreCompiledApart) {
  const auto broker = start();
  ASSERT_TRUE(broker);
  BuildRequest request;
  request.name = "kernel";
  request.backend = "cpp";
  request.implicit_headers = false;
  const std::string include = "#include <vector>\n#include <torch/extension.h>\n";
  request.cpp_sources = {include +
                             "static float scale() { return 2; }\n#define N 1\n"
                             "at::Tensor g(at::Tensor x) { return x * scale(); }",
                         include +
                             "static float scale() { return 3; }\nat::Tensor g(at::Tensor x);\n"
                             "#ifdef N\n#error one unit\n#endif\n"
                             "at::Tensor f(at::Tensor x) { return g(x) * scale(); }\n"
                             "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"f\", &f); }"};
  const BuildResult result = broker->build(request);
  EXPECT_TRUE(result.ok) << result.reason << result.fallback << result.log;
  EXPECT_EQ(result.headers, "slim");
  request.cpp_sources[1] += "\nint x = y;";
  EXPECT_THAT(broker->build(request).log, HasSubstr("cpp_sources[1]:10:9: error: 'y' was not declared"));
}

TEST_F(BrokerTest, ASourceCannotBlameTheTools) {
  const auto broker = start();
  ASSERT_TRUE(broker);
  for (const char* words : {"cc1plus: fatal error: /kz/precompiled/slim-0/kz_unit.h: No such file or directory",
                            "collect2: fatal error: cannot find 'ld'"}) {
    const auto result = broker->build(request_of(std::string("__asm__(\".print \\\"") + words +
                                                 "\\\"\\n.error\");\nat::Tensor f(at::Tensor x) { return x; }"));
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.log, HasSubstr("Assembler messages"));
    // Doubted, since no compiler's error stands there; this broker has no real headers to look with.
    EXPECT_NE(result.fallback, "");
  }
}

TEST_F(BrokerTest, AnotherLinkerWhereMoldIsNot) {
  BrokerOptions options;
  options.layout = *find_layout();
  options.headers = "slim";
  int tried = 0;
  for (const char* linker : {"gold", "lld", "bfd"}) {
    if (!fs::exists(std::string("/usr/bin/ld.") + linker)) continue;
    ++tried;
    options.cache = dir_.path() / linker;
    options.linkers = {"no_such_linker", linker};
    const auto broker = BuildBroker::start(options);
    ASSERT_TRUE(broker) << broker.error().message;
    EXPECT_EQ((*broker)->capabilities()["linker"], linker);
    const BuildResult result = (*broker)->build(request_of("at::Tensor f(at::Tensor x) { return x + 1; }"));
    EXPECT_TRUE(result.ok) << linker << result.log;
    const auto twice =
        (*broker)->build(request_of("__asm__(\".globl h\\nh:\\n.globl PyInit_kernel\\nPyInit_kernel:\");\n"
                                    "at::Tensor f(at::Tensor x) { return x; }"));
    EXPECT_FALSE(twice.ok);
  }
  EXPECT_GT(tried, 0);  // binutils comes with g++
  options.linkers = {"no_such_linker"};
  const auto none = BuildBroker::start(options);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("no_such_linker"));
}

TEST_F(BrokerTest, WhatNeedsTheRealHeadersSaysWhy) {
  const auto broker = start();
  ASSERT_TRUE(broker);
  const auto index = broker->build(request_of("at::Tensor f(at::Tensor x) { return x.index({0}); }"));
  EXPECT_FALSE(index.ok);
  EXPECT_EQ(index.reason, "toolchain");  // only because this broker may not use them
  EXPECT_THAT(index.fallback, HasSubstr("index"));
}

}  // namespace
}  // namespace kz::keck
