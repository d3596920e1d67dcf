// The parts of the worker that need no process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "keck/worker/build_service.h"
#include "keck/worker/log_capture.h"
#include "keck/worker/object_check.h"
#include "keck/worker/slots.h"
#include "keck/worker/source_check.h"

namespace kz::keck {
namespace {

TEST(LogCapture, KeepsHeadAndTail) {
  LogCapture log(4, 6);
  log.append("abcdefgh");
  EXPECT_EQ(log.text(), "abcdefgh");
  for (char c = 'i'; c <= 'z'; ++c) log.append(std::string(1, c));
  EXPECT_EQ(log.text(), "abcd\n[... 16 bytes left out ...]\nuvwxyz");
  EXPECT_EQ(log.total(), 26u);
}

TEST(LogCapture, TakesOneHugePiece) {
  LogCapture log(2, 3);
  log.append("ab" + std::string(1000, '-') + "xyz");
  EXPECT_EQ(log.text(), "ab\n[... 1000 bytes left out ...]\nxyz");
}

TEST(SourceCheck, FindsTheFirstBadByte) {
  EXPECT_FALSE(check_source("x = 'gr\xc3\xbc\xc3\x9f'\n"));
  EXPECT_FALSE(check_source("x = '\xf0\x9f\x8c\x8d'\n"));
  for (const char* bad : {"ab\xff", "ab\xc0\xaf", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\xc3"}) {
    EXPECT_EQ(first_bad_utf8(bad), 2u);
    EXPECT_EQ(check_source(bad)->reason, "bad_encoding");
  }
  EXPECT_EQ(check_source(std::string_view("a\0b", 3))->reason, "bad_encoding");
  EXPECT_EQ(check_source(" \n\t")->reason, "empty");
  EXPECT_EQ(check_source(std::string(80 << 20, ' '))->reason, "too_large");
}

Json request() {
  return {
      {"name", "k"},        {"backend", "cpp"},        {"cpp_sources", {"int f();"}},  {"cuda_sources", Json::array()},
      {"functions", {"f"}}, {"cflags", Json::array()}, {"cuda_cflags", Json::array()}, {"ldflags", Json::array()}};
}

TEST(BuildRequestJson, TakesWhatTheChildSends) {
  const auto parsed = build_request_from_json(request());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->functions, std::vector<std::string>{"f"});
}

TEST(BuildRequestJson, RefusesEverythingElse) {
  EXPECT_FALSE(build_request_from_json(Json::array()));
  const Json whole = request();
  for (const auto& [key, value] : whole.items()) {
    Json missing = request(), wrong = request();
    missing.erase(key);
    wrong[key] = 7;
    EXPECT_FALSE(build_request_from_json(missing)) << key;
    EXPECT_FALSE(build_request_from_json(wrong)) << key;
  }
  Json nested = request();
  nested["cflags"] = {Json::array()};
  EXPECT_FALSE(build_request_from_json(nested));
}

TEST(ObjectCheck, KnowsBorrowedNames) {
  for (const char* name :
       {"sgemm_", "dgemm", "cblas_sgemm", "vsExp", "dlsym", "_ZN2at6native10add_kernelE",
        "_ZN2at3cpu3mulERKNS_6TensorES3_", "_ZN2at4_ops4relu10redispatchEN3c1014DispatchKeySetERKNS_6TensorE"})
    EXPECT_TRUE(is_borrowed(name)) << name;
  for (const char* name : {"expf", "memcpy", "vsnprintf", "scalbn", "_ZN2at4_ops10empty_like4callE", "kz_shim_call",
                           "GOMP_parallel", "dot", "_ZSt4cout"})
    EXPECT_FALSE(is_borrowed(name)) << name;
}

TEST(ObjectCheck, ReadsObjectsAndRefusesOthers) {
  // This program itself is dynamically linked and borrows nothing.
  auto self = read_file("/proc/self/exe");
  ASSERT_TRUE(self);
  auto found = borrowed_compute(*self);
  ASSERT_TRUE(found) << found.error().message;
  for (size_t length : {0u, 3u, 63u, 64u, 1000u}) EXPECT_FALSE(borrowed_compute(self->substr(0, length)));
  EXPECT_FALSE(borrowed_compute(std::string(5000, 'x')));
}

TEST(Places, HoldNoMoreThanTheyHave) {
  Places places(1);
  std::atomic<bool> cancelled{true};
  auto first = places.acquire();
  EXPECT_EQ(places.acquire(&cancelled), nullptr);
  first.reset();
  EXPECT_NE(places.acquire(&cancelled), nullptr);
}

}  // namespace
}  // namespace kz::keck
