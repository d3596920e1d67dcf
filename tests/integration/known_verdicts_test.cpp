// Every row of data/verdicts through the real `keck serve`: what Keck says is what stands there.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/clock.h"
#include "base/text.h"
#include "corpus/known_verdicts.h"
#include "integration/run_keck.h"
#include "keck/client/evaluations.h"
#include "keck/client/local_server.h"

namespace kz::keck {
namespace {

class KnownVerdicts : public testing::TestWithParam<const char*> {};

TEST_P(KnownVerdicts, AllAgree) {
  const std::string file = std::string("data/verdicts/") + GetParam() + ".jsonl";
  const auto text = read_file(file);
  ASSERT_TRUE(text) << text.error().message;
  std::vector<corpus::KnownVerdict> rows;
  for (const auto& line : split(*text, '\n')) {
    if (trim(line).empty()) continue;
    const auto json = parse_json(line, file);
    ASSERT_TRUE(json) << json.error().message;
    auto row = corpus::known_verdict_from_json(*json);
    ASSERT_TRUE(row) << row.error().message;
    rows.push_back(std::move(*row));
  }

  const TempDir state = *TempDir::make(fs::temp_directory_path(), "kdaemon_known");
  LocalServerOptions options;
  options.layout = test_layout();
  options.state = state.path();
  const auto server = LocalServer::start(options);
  ASSERT_TRUE(server) << server.error().message;
  const Stopwatch watch;
  Evaluations evaluations(*Client::make({.url = server->url()}), 32);
  for (size_t i = 0; i < rows.size(); ++i) {
    EvaluationRequest request;
    request.module = rows[i].module;
    request.candidate = rows[i].candidate;
    request.backend = rows[i].backend;
    request.timing = false;
    request.deadline_s = 120;  // of a busy machine: none of the rows is about time
    evaluations.submit(i, request);
  }
  size_t right = 0, wrong = 0, agreed = 0;
  double cpu_seconds = 0;
  while (evaluations.outstanding() > 0) {
    const auto got = evaluations.next(std::chrono::seconds(600));
    ASSERT_TRUE(got) << "a verdict did not come";
    const auto& row = rows[got->first];
    ++(row.right ? right : wrong);
    cpu_seconds += got->second.cpu_seconds;
    const std::string difference = corpus::difference(row, to_json(got->second));
    agreed += difference.empty();
    EXPECT_EQ(difference, "") << "row " << got->first + 1 << " (" << row.id << " " << row.mutation
                              << "): " << got->second.message;
  }
  EXPECT_GE(right, 40u);
  EXPECT_GE(wrong, 40u);
  std::printf("%s: %zu right, %zu wrong, %zu agreed; %.0f s, %.2f CPU-s a verdict\n", GetParam(), right, wrong, agreed,
              watch.seconds(), cpu_seconds / static_cast<double>(rows.size()));
}

INSTANTIATE_TEST_SUITE_P(Backends, KnownVerdicts, testing::Values("cpp", "triton"));

}  // namespace
}  // namespace kz::keck
