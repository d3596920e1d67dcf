#include "keck/api/http.h"

#include <gtest/gtest.h>

#include "keck/api/http_server.h"

namespace kz::keck {
namespace {

TEST(ParseTarget, SplitsAndDecodes) {
  HttpRequest request;
  ASSERT_TRUE(parse_target("/v1/a%2Fb?wait=1.5&name=a+b%21&flag&wait=2", request));
  EXPECT_EQ(request.path, "/v1/a/b");
  EXPECT_EQ(request.query, (std::map<std::string, std::string>{{"wait", "2"}, {"name", "a b!"}, {"flag", ""}}));
}

TEST(ParseTarget, RefusesWhatItCannotRead) {
  HttpRequest request;
  for (const char* bad : {"", "v1", "http://host/", "/%", "/%4", "/%zz", "/?a=%g1"})
    EXPECT_FALSE(parse_target(bad, request)) << bad;
}

TEST(ParseListen, TakesHostAndPort) {
  const auto parsed = [](const std::string& text) -> std::string {
    std::string host = "127.0.0.1";
    uint16_t port = 1;
    const auto status = parse_listen(text, host, port);
    return status ? host + " " + std::to_string(port) : status.error().code;
  };
  EXPECT_EQ(parsed("0.0.0.0:80"), "0.0.0.0 80");
  EXPECT_EQ(parsed("[::1]:8787"), "::1 8787");
  EXPECT_EQ(parsed(":0"), "127.0.0.1 0");
  EXPECT_EQ(parsed("9000"), "127.0.0.1 9000");
  for (const char* bad : {"", "host", "host:", "host:http", "host:65536", "host:-1", "1:2:99999999"})
    EXPECT_EQ(parsed(bad), "config") << bad;
}

}  // namespace
}  // namespace kz::keck
