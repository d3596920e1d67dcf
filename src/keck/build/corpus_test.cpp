// The corpus of src/headers/corpus. Fast: some of it against slim headers. Slow (KZ_CORPUS_FULL): all of it both ways,
// and the two must agree; this compiles with torch's real headers, tens of CPU-seconds a source without their
// precompiled form.
#include "keck/build/corpus.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

namespace kz::keck {
namespace {

std::vector<CorpusCase> corpus() {
  const fs::path folder = find_layout()->root / "src" / "headers" / "corpus";
  auto cases = read_corpus(folder / "right.txt", true);
  const auto wrong = read_corpus(folder / "wrong.txt", false);
  cases.insert(cases.end(), wrong.begin(), wrong.end());
  return cases;
}

std::unique_ptr<BuildBroker> start(const fs::path& cache, const std::string& headers) {
  BrokerOptions options;
  options.layout = *find_layout();
  options.cache = cache;
  options.headers = headers;
  auto broker = BuildBroker::start(options);
  EXPECT_TRUE(broker) << broker.error().message;
  return broker ? std::move(*broker) : nullptr;
}

void expect(const CorpusCase& one, const BuildResult& result) {
  SCOPED_TRACE(one.name + " [" + result.headers + ", " + result.fallback + "]\n" + result.log);
  EXPECT_EQ(result.ok, one.right);
  if (!one.headers.empty()) {
    EXPECT_EQ(result.headers, one.headers);
  }
  if (one.right) return;
  EXPECT_TRUE(result.reason == "compile_error" || result.reason == "timeout" || result.reason == "memory")
      << result.reason;
  if (one.line > 0) {
    EXPECT_NE(result.log.find("cpp_sources[0]:" + std::to_string(one.line) + ":"), std::string::npos);
  }
  EXPECT_NE(result.log.find(one.error), std::string::npos);
}

#ifndef KZ_CORPUS_FULL

TEST(Corpus, AFewAgainstSlimHeaders) {
  const TempDir dir = *TempDir::make(fs::temp_directory_path(), "kz-corpus-");
  const auto broker = start(dir.path(), "slim");
  ASSERT_TRUE(broker);
  const std::set<std::string> few = {
      "relu", "dispatch", "pybind_module", "undeclared_variable", "max_of_two_types", "missing_semicolon"};
  size_t seen = 0;
  for (const CorpusCase& one : corpus()) {
    if (few.count(one.name) == 0) continue;
    ++seen;
    expect(one, broker->build(one.request));
  }
  EXPECT_EQ(seen, few.size());
}

#else

TEST(Corpus, SlimAndFullAgree) {
  const TempDir slim_dir = *TempDir::make(fs::temp_directory_path(), "kz-corpus-");
  const TempDir full_dir = *TempDir::make(fs::temp_directory_path(), "kz-corpus-");
  const auto automatic = start(slim_dir.path(), "auto");
  const auto full = start(full_dir.path(), "full");
  ASSERT_TRUE(automatic && full);
  int slim_verdicts = 0;
  for (const CorpusCase& one : corpus()) {
    const BuildResult ours = automatic->build(one.request);
    expect(one, ours);
    slim_verdicts += ours.headers == "slim" ? 1 : 0;
    const BuildResult real = full->build(one.request);
    EXPECT_EQ(ours.ok, real.ok) << one.name << "\nslim: " << ours.log << "\nfull: " << real.log;
    std::printf("%-30s %-5s %s %.2f CPU-s, real headers %.1f CPU-s %s\n", one.name.c_str(), ours.headers.c_str(),
                ours.ok ? "ok  " : "fail", ours.cpu_seconds, real.cpu_seconds, ours.fallback.c_str());
    std::fflush(stdout);
  }
  EXPECT_GT(slim_verdicts, 45);
}

#endif

}  // namespace
}  // namespace kz::keck
