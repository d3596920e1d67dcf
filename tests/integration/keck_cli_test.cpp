// What a person sees: one line that says where and what to do, and the exit code of keck.md, part 8.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "integration/run_keck.h"
#include "integration/sources.h"
#include "keck/client/local_server.h"

namespace kz::keck {
namespace {

using testing::HasSubstr;

class KeckCli : public testing::Test {
 protected:
  KeckCli() : folder_(*TempDir::make(fs::temp_directory_path(), "kdaemon_cli")) {
    write("module.py", kReluModule);
    write("right.py", relu_kernel());
    write("wrong.py", relu_kernel("v"));
  }

  static void SetUpTestSuite() {
    folder_of_server_ = new TempDir(*TempDir::make(fs::temp_directory_path(), "kdaemon_cli_state"));
    LocalServerOptions options;
    options.layout = test_layout();
    options.state = folder_of_server_->path();
    auto server = LocalServer::start(options);
    ASSERT_TRUE(server) << server.error().message;
    server_ = new LocalServer(std::move(*server));
  }
  static void TearDownTestSuite() {
    delete server_;
    delete folder_of_server_;
  }

  std::string path(const std::string& name) const { return folder_.path() / name; }
  void write(const std::string& name, const std::string& text) { ASSERT_TRUE(write_file_atomic(path(name), text)); }
  Ran check(const std::string& module, const std::string& kernel, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"check",       path(module), path(kernel),
                                          "--no-timing", "--server",   server_->url()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_keck(arguments);
  }
  static void expect_one_line_error(const Ran& ran, const std::string& what) {
    EXPECT_EQ(ran.exit_code, 2) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(what));
    EXPECT_EQ(ran.out, "");
  }

  TempDir folder_;
  static TempDir* folder_of_server_;
  static LocalServer* server_;
};
TempDir* KeckCli::folder_of_server_ = nullptr;
LocalServer* KeckCli::server_ = nullptr;

TEST_F(KeckCli, PassIsZeroAndFailIsOneAndBothAreReadable) {
  const Ran right = check("module.py", "right.py");
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_THAT(right.out, HasSubstr("✓ pass  right"));
  const Ran wrong = check("module.py", "wrong.py");
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_THAT(wrong.out, HasSubstr("✗ fail at compare"));
  EXPECT_THAT(wrong.out, HasSubstr("output 0["));
  EXPECT_THAT(wrong.out, HasSubstr("expected"));
}

TEST_F(KeckCli, ACompilerErrorPointsAtTheCandidate) {
  write("broken.py", relu_kernel("2 * w"));
  const Ran ran = check("module.py", "broken.py");
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("fail at build"));
  EXPECT_THAT(ran.out, HasSubstr("compile_error"));
  EXPECT_THAT(ran.out, HasSubstr("'w' was not declared"));
}

TEST_F(KeckCli, JsonIsTheVerdictAndNothingElse) {
  const Ran ran = check("module.py", "wrong.py", {"--json"});
  EXPECT_EQ(ran.exit_code, 1);
  const auto json = parse_json(ran.out, "stdout");
  ASSERT_TRUE(json) << ran.out;
  EXPECT_EQ((*json)["outcome"], "fail");
  EXPECT_TRUE((*json)["correctness"]["first_mismatch"].is_object());
}

TEST_F(KeckCli, KeepAndSeedReproduceAVerdict) {
  const Ran first = check("module.py", "wrong.py", {"--keep", path("kept"), "--json"});
  ASSERT_EQ(first.exit_code, 1) << first.err;
  for (const char* name : {"module.py", "kernel.py", "request.json", "verdict.json", "build.log", "output.log"})
    EXPECT_TRUE(fs::exists(folder_.path() / "kept" / name)) << name;
  EXPECT_EQ(*read_file(path("kept/kernel.py")), relu_kernel("v"));
  const Json verdict = *parse_json(first.out, "stdout");
  const Ran again = check("kept/module.py", "kept/kernel.py", {"--seed", verdict["seed"].dump(), "--json"});
  const Json same = *parse_json(again.out, "stdout");
  EXPECT_EQ(same["seed"], verdict["seed"]);
  EXPECT_EQ(same["correctness"], verdict["correctness"]);
}

TEST_F(KeckCli, ATasksDefectIsUnscoredAndACandidatesDefectIsFail) {
  write("no_model.py", "import torch\n\n\ndef get_inputs():\n    return [torch.randn(4)]\n");
  const Ran no_model = check("no_model.py", "right.py");
  EXPECT_EQ(no_model.exit_code, 3) << no_model.out << no_model.err;
  EXPECT_THAT(no_model.out, HasSubstr("Model"));
  write("no_new.py", "x = 1\n");
  const Ran no_new = check("module.py", "no_new.py");
  EXPECT_EQ(no_new.exit_code, 1) << no_new.out << no_new.err;
  EXPECT_THAT(no_new.out, HasSubstr("ModelNew"));
}

TEST_F(KeckCli, FilesThatCannotBeReadAreErrorsBeforeAnythingStarts) {
  expect_one_line_error(check("module.py", "none.py"), "none.py");
  expect_one_line_error(check(".", "right.py"), "is a folder");
  write("latin.py", "import torch\n# caf\xe9\n");
  expect_one_line_error(check("module.py", "latin.py"), "latin.py:2: not valid UTF-8");
  write("huge.py", std::string(80'000'000, '#'));
  expect_one_line_error(check("module.py", "huge.py"), "80000000 bytes; a source may have at most 1 MiB");
}

TEST_F(KeckCli, UsageErrorsAreTwo) {
  EXPECT_EQ(run_keck({}).exit_code, 2);
  EXPECT_EQ(run_keck({"check", path("module.py")}).exit_code, 2);
  EXPECT_EQ(run_keck({"serve", "--no-such-flag"}).exit_code, 2);
  EXPECT_EQ(check("module.py", "right.py", {"--backend", "rocm"}).exit_code, 2);
  EXPECT_EQ(run_keck({"--help"}).exit_code, 0);
  const Ran away = run_keck({"check", path("module.py"), path("right.py"), "--server", "ftp://x"});
  expect_one_line_error(away, "ftp://x");
}

TEST_F(KeckCli, ConfigErrorsNameTheKeyAndTheNearestKnownOne) {
  write("keck.toml", "[queue]\nlimits = 3\n");
  const Ran unknown = run_keck({"serve", "--config", path("keck.toml"), "--state", path("state")});
  expect_one_line_error(unknown, "queue.limits");
  EXPECT_THAT(unknown.err, HasSubstr("queue.limit"));
  expect_one_line_error(run_keck({"serve", "--set", "drain_s=-1", "--state", path("state")}), "drain_s");
  expect_one_line_error(run_keck({"serve", "--config", path("none.toml")}), "none.toml");
  expect_one_line_error(run_keck({"serve", "--listen", "nowhere", "--state", path("state")}), "nowhere");
}

TEST_F(KeckCli, ATakenPortIsOneLine) {
  const std::string address = server_->url().substr(7);
  const Ran ran = run_keck({"serve", "--listen", address, "--state", path("state")});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.err, HasSubstr("cannot listen on " + address));
  EXPECT_THAT(ran.err, HasSubstr("--listen"));
}

TEST_F(KeckCli, AStateFolderIsOneDaemonsAndOfOneVersion) {
  expect_one_line_error(run_keck({"serve", "--listen", "127.0.0.1:0", "--state", folder_of_server_->path()}),
                        "another keck uses");
  write("journal.db", "this is no database, and long enough to be read as a header of one");
  expect_one_line_error(run_keck({"serve", "--listen", "127.0.0.1:0", "--state", folder_.path()}), "journal.db");
}

TEST_F(KeckCli, TheGateReadsModules) {
  const Ran good =
      run_keck({"check-module", path("module.py"), "--apis", "torch.relu", "--json", "--server", server_->url()});
  const auto json = parse_json(good.out, "stdout");
  ASSERT_TRUE(json) << good.out << good.err;
  EXPECT_THAT((*json)["apis"], testing::Contains("torch.relu"));
  const Ran asked_other =
      run_keck({"check-module", path("module.py"), "--apis", "torch.softmax", "--server", server_->url()});
  EXPECT_EQ(asked_other.exit_code, 1) << asked_other.out << asked_other.err;
}

TEST_F(KeckCli, DoctorSaysWhatIsThere) {
  const Ran ran = run_keck({"doctor", "--quick", "--json", "--state", path("state")});
  const auto json = parse_json(ran.out, "stdout");
  ASSERT_TRUE(json) << ran.out << ran.err;
  EXPECT_EQ(ran.exit_code, (*json)["ok"].get<bool>() ? 0 : 2);
  EXPECT_TRUE((*json)["python"]["torch"].is_string());
  EXPECT_TRUE((*json)["sandbox"].contains("host"));
  EXPECT_FALSE((*json)["findings"].empty());
}

TEST_F(KeckCli, OpenApiIsWhatTheServerSays) {
  const Ran ran = run_keck({"openapi"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(*parse_json(ran.out, "stdout"), *Client::make({.url = server_->url()})->get("/openapi.json"));
}

}  // namespace
}  // namespace kz::keck
