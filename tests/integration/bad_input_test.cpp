// What a user gets wrong, as one table over the real programs: the exit code of keck.md, part 8, and one line that
// names the place and the remedy.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "base/json.h"
#include "base/text.h"
#include "integration/run_keck.h"
#include "integration/sources.h"
#include "keck/client/local_server.h"

namespace kz::keck {
namespace {

using testing::HasSubstr;

struct Case {
  std::string name, program;
  std::string arguments;  // words; @ is the folder of the fixture, $ the address of a running server
  int exit_code;
  std::vector<std::string> words;  // that the line holds
  std::string output = "";         // where standard output goes
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.program << " " << c.arguments; }

// A file of each kind of wrong, in one folder.
class BadInput : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempDir(*TempDir::make(fs::temp_directory_path(), "kdaemon_bad"));
    write("module.py", kReluModule);
    write("right.py", relu_kernel());
    write("no_model.py", "import torch\n\n\ndef get_inputs():\n    return [torch.randn(4)]\n");
    write("no_model_new.py", "import torch\n");
    write("latin.py", "import torch\n# caf\xe9\n");
    write("huge.py", std::string(80'000'000, '#'));
    write("unknown.toml", "[train]\nlrr = 1.0\n");
    write("keck.toml", "[queue]\nlimits = 3\n");
    write("rows.jsonl", "{\"backend\": \"cpp\"}\n");
    models();
    runs();
    LocalServerOptions options;
    options.layout = test_layout();
    options.state = folder_->path() / "server";
    auto server = LocalServer::start(options);
    ASSERT_TRUE(server) << server.error().message;
    server_ = new LocalServer(std::move(*server));
  }
  static void TearDownTestSuite() {
    delete server_;
    delete folder_;
  }

  static std::string path(const std::string& name) { return folder_->path() / name; }
  static void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(make_dirs(fs::path(path(name)).parent_path()));
    ASSERT_TRUE(write_file_atomic(path(name), text));
  }

  // models/nano with a file cut short, and with a merge of tokens that are not there.
  static void models() {
    fs::copy("models/nano", path("truncated"));
    fs::resize_file(path("truncated/model.safetensors"), 1'000'000);
    fs::copy("models/nano", path("merge"));
    Json tokenizer = *parse_json(*read_file("models/nano/tokenizer.json"), "tokenizer.json");
    tokenizer["model"]["merges"] = {"zq xx"};
    write("merge/tokenizer.json", dump_json(tokenizer));
  }
  // A run folder and a state folder that later versions wrote.
  static void runs() {
    write("old/config.toml", "name = \"old\"\n");
    SQLite::Database run(path("old/run.db"), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    run.exec("CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT); INSERT INTO meta VALUES('schema_version', '999')");
    ASSERT_TRUE(make_dirs(path("state")));
    SQLite::Database journal(path("state/journal.db"), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    journal.exec("CREATE TABLE jobs(id TEXT); PRAGMA user_version = 999");
  }

  static TempDir* folder_;
  static LocalServer* server_;
};
TempDir* BadInput::folder_ = nullptr;
LocalServer* BadInput::server_ = nullptr;

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

TEST_P(BadInput, IsOneLineAndItsExitCode) {
  const Case& c = GetParam();
  const std::string url = server_->url();
  std::vector<std::string> arguments;
  for (const auto& word : split(c.arguments, ' '))
    arguments.push_back(replaced(replaced(replaced(word, "@", folder_->path()), "$", url), "%", url.substr(7)));
  if (!fs::exists(test_layout().bin / c.program)) GTEST_SKIP() << c.program << " is not built here";
  const Ran ran = run_program(c.program, arguments, c.output);
  EXPECT_EQ(ran.exit_code, c.exit_code) << ran.out << ran.err;
  std::string line = ran.err;
  if (c.exit_code == 2) {
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
    EXPECT_TRUE(line.starts_with(c.program + ": ")) << line;
    EXPECT_EQ(ran.out, "");
  } else if (c.program == "keck") {  // a verdict, as JSON
    const auto verdict = parse_json(ran.out, "stdout");
    ASSERT_TRUE(verdict) << ran.out << ran.err;
    line = verdict->value("message", "");
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 0) << line;
  }
  for (const auto& word : c.words) EXPECT_THAT(line, HasSubstr(replaced(word, "@", folder_->path())));
}

const char* const kAgain = "copy or download the file again";

INSTANTIATE_TEST_SUITE_P(
    Keck, BadInput,
    testing::Values(
        Case{"NoModel", "keck", "check @/no_model.py @/right.py --json --server $", 3, {"Model"}},
        Case{"NoModelNew", "keck", "check @/module.py @/no_model_new.py --json --server $", 1, {"ModelNew"}},
        Case{"NoModelAtTheGate", "keck", "check-module @/no_model.py --json --server $", 1, {"Model"}},
        Case{"BrokenModule", "keck", "check @/latin.py @/right.py", 2, {"@/latin.py:2", "save the file as UTF-8"}},
        Case{"BrokenKernel", "keck", "check @/module.py @/latin.py", 2, {"@/latin.py:2", "save the file as UTF-8"}},
        Case{"BrokenAtTheGate", "keck", "check-module @/latin.py", 2, {"@/latin.py:2", "save the file as UTF-8"}},
        Case{"HugeModule", "keck", "check @/huge.py @/right.py", 2, {"@/huge.py has 80000000 bytes", "at most 1 MiB"}},
        Case{"HugeKernel", "keck", "check @/module.py @/huge.py", 2, {"@/huge.py has 80000000 bytes", "at most 1 MiB"}},
        Case{"Missing", "keck", "check @/module.py @/none.py", 2, {"@/none.py", "check the path"}},
        Case{"UnknownKey", "keck", "serve --config @/keck.toml", 2, {"queue.limits", "queue.limit"}},
        Case{"TakenPort", "keck", "serve --listen % --state @/other", 2, {"cannot listen on", "--listen"}},
        Case{
            "OtherVersion", "keck", "serve --listen 127.0.0.1:0 --state @/state", 2, {"@/state/journal.db", "--state"}},
        Case{"FullDisk",
             "keck",
             "openapi",
             2,
             {"cannot write the output: No space left", "free some space"},
             "/dev/full"},
        Case{"FullDiskOfAVerdict",
             "keck",
             "check @/module.py @/no_model_new.py --server $",
             2,
             {"cannot write the output: No space left"},
             "/dev/full"}),
    [](const auto& row) { return row.param.name; });

INSTANTIATE_TEST_SUITE_P(
    KernelZero, BadInput,
    testing::Values(
        Case{"NoModel",
             "kernelzero",
             "code @/no_model.py --model models/nano --samples 1 --server $",
             3,
             {"@/no_model.py: none", "Model"}},
        Case{"Broken",
             "kernelzero",
             "code @/latin.py --model models/nano",
             2,
             {"@/latin.py:2", "save the file as UTF-8"}},
        Case{"Huge", "kernelzero", "code @/huge.py --model models/nano", 2, {"@/huge.py has 80000000 bytes", "1 MiB"}},
        Case{"Truncated",
             "kernelzero",
             "code @/module.py --model @/truncated",
             2,
             {"@/truncated/model.safetensors", kAgain}},
        Case{"TruncatedInfo", "kernelzero", "model info @/truncated", 2, {"@/truncated/model.safetensors", kAgain}},
        Case{"TruncatedStart",
             "kernelzero",
             "evolve configs/tiny.toml --runs @/runs --set model.start=@/truncated",
             2,
             {"@/truncated/model.safetensors", kAgain}},
        Case{"WrongMerge",
             "kernelzero",
             "code @/module.py --model @/merge",
             2,
             {"@/merge/tokenizer.json", "merges[0]", "zq", "take tokenizer.json from"}},
        Case{"WrongMergeInSft",
             "kernelzero",
             "sft configs/nano.toml --set model.start=@/merge --set out=@/out",
             2,
             {"@/merge/tokenizer.json", "merges[0]"}},
        Case{"UnknownKey", "kernelzero", "evolve @/unknown.toml --runs @/runs", 2, {"train.lrr", "train.lr"}},
        Case{"UnknownKeySet", "kernelzero", "sft configs/nano.toml --set train.lrr=1", 2, {"train.lrr", "train.lr"}},
        Case{"OtherVersion",
             "kernelzero",
             "evolve --resume @/old",
             2,
             {"@/old/run.db", "another version", "start a new run"}},
        Case{"OtherVersionReport", "kernelzero", "report @/old", 2, {"@/old/run.db", "another version"}},
        Case{"OtherVersionReplay",
             "kernelzero",
             "evolve configs/tiny.toml --runs @/runs --replay @/old",
             2,
             {"@/old/run.db", "another version"}},
        Case{"NoServer",
             "kernelzero",
             "code @/module.py --model models/nano --server http://127.0.0.1:1",
             2,
             {"http://127.0.0.1:1"}},
        Case{"WrongRow", "kernelzero", "corpus check @/rows.jsonl", 2, {"@/rows.jsonl:1"}},
        Case{"NoPlaceForRows", "kernelzero", "corpus make @/none/rows.jsonl --rows 1", 2, {"@/none"}},
        Case{"ADeviceIsNoFile", "kernelzero", "corpus make /dev/full --rows 1", 2, {"/dev/full"}},
        Case{"FullDisk", "kernelzero", "apis list --json", 2, {"cannot write the output: No space left"}, "/dev/full"}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace kz::keck
