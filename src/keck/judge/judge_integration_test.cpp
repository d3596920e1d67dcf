// The judge process with real torch children.
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/clock.h"
#include "keck/judge/children_for_test.h"

namespace kz::keck {
namespace {

constexpr const char* kPrelude = "import torch\nimport torch.nn as nn\n";

struct Case {
  std::string name, expected, check, module, candidate;
};

std::string trimmed(const std::string& s) {
  const size_t from = s.find_first_not_of(' ');
  return from == std::string::npos ? "" : s.substr(from, s.find_last_not_of(' ') - from + 1);
}

std::string renamed(std::string module) {
  const size_t at = module.find("class Model(");
  return at == std::string::npos ? module : module.replace(at, 12, "class ModelNew(");
}

std::vector<Case> read_cases(const fs::path& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  std::string* into = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("###")) continue;
    if (line.starts_with("=== ")) {
      const size_t one = line.find('|'), two = line.rfind('|');
      Case& c = cases.emplace_back();
      c.name = trimmed(line.substr(4, one - 4));
      c.expected = trimmed(line.substr(one + 1, two - one - 1));
      c.check = trimmed(line.substr(two + 1));
      into = &c.module;
      *into = kPrelude;
    } else if (line == "---") {
      into = &cases.back().candidate;
      *into = kPrelude;
    } else {
      *into += line + '\n';
    }
  }
  for (Case& c : cases) {
    if (c.candidate == std::string(kPrelude) + "MODULE\n") c.candidate = renamed(c.module);
  }
  return cases;
}

std::string verdict_of(const JudgeReport& report) {
  if (report.outcome == Outcome::kPass) return "pass";
  return std::string(to_string(report.outcome)) + "/" + std::string(to_string(report.stage)) + "/" + report.reason;
}

bool matches(const std::string& verdict, const std::string& expected) {
  if (!expected.ends_with("*")) return verdict == expected;
  return verdict.starts_with(expected.substr(0, expected.size() - 1));
}

class JudgeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto layout = find_layout();
    ASSERT_TRUE(layout) << layout.error().message;
    layout_ = new Layout(*layout);
    host_ = new ChildHost(*layout_);
  }
  static void TearDownTestSuite() {
    delete host_;
    delete layout_;
  }
  void SetUp() override {
    auto judge = Judge::start(*layout_);
    ASSERT_TRUE(judge) << judge.error().message;
    judge_ = std::move(*judge);
    job_.timing = false;
    job_.call_s = 2;
    job_.max_bytes = 256 << 20;
  }

  Result<JudgeReport> run(const TestChild& reference, const TestChild& candidate,
                          const JudgeCallbacks& callbacks = {}) {
    return judge_->run(job_, {reference.handle(), candidate.handle(), {}}, callbacks, cancelled_);
  }

  static inline Layout* layout_ = nullptr;
  static inline ChildHost* host_ = nullptr;
  std::unique_ptr<Judge> judge_;
  JudgeJob job_;
  std::atomic<bool> cancelled_{false};
};

const std::string kTwice = std::string(kPrelude) +
                           "class Model(nn.Module):\n    def forward(self, x): return torch.relu(x) * 2\n"
                           "def get_inputs(): return [torch.randn(64, 256)]\ndef get_init_inputs(): return []\n";

TEST_F(JudgeTest, Cases) {
  const auto cases = read_cases(layout_->root / "src/keck/judge/testdata/cases/cases.txt");
  ASSERT_GT(cases.size(), 40u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    job_.check = c.check;
    const TestChild reference = host_->fork("reference", c.module), candidate = host_->fork("candidate", c.candidate);
    const auto report = run(reference, candidate);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(matches(verdict_of(*report), c.expected))
        << verdict_of(*report) << ", not " << c.expected << ": " << report->message;
    EXPECT_EQ(report->reference_clean, c.expected != "unscored/task/reference_crashed");
  }
}

TEST_F(JudgeTest, OneReferenceServesManyAndTheTaskIsAuditedOnce) {
  job_.task_key = "twice";
  const TestChild reference = host_->fork("reference", kTwice);
  uint64_t seed = 0;
  for (int i = 0; i < 4; ++i) {
    // Every second one dies in the middle.
    const std::string source =
        renamed(kTwice) + (i % 2 ? "import os\nModelNew.forward = lambda self, x: os._exit(0)\n" : "");
    const TestChild candidate = host_->fork("candidate", source);
    const auto report = run(reference, candidate);
    ASSERT_TRUE(report);
    EXPECT_EQ(verdict_of(*report), i % 2 ? "fail/run/crashed" : "pass") << report->message;
    EXPECT_TRUE(report->reference_clean);
    EXPECT_NE(report->seed, seed) << "secret seeds are fresh";
    seed = report->seed;
  }
}

TEST_F(JudgeTest, ASeedReproducesTheVerdict) {
  job_.seed = 12345678901234567ULL;
  std::string wrong = renamed(kTwice);
  wrong.replace(wrong.find("* 2"), 3, "* torch.where(x > 3, 2.1, 2.0)");
  std::vector<Mismatch> seen;
  for (int i = 0; i < 2; ++i) {
    const TestChild reference = host_->fork("reference", kTwice), candidate = host_->fork("candidate", wrong);
    const auto report = run(reference, candidate);
    ASSERT_TRUE(report && report->correctness && report->correctness->first_mismatch);
    EXPECT_EQ(report->seed, *job_.seed);
    seen.push_back(*report->correctness->first_mismatch);
  }
  EXPECT_EQ(seen[0].index, seen[1].index);
  EXPECT_EQ(seen[0].expected, seen[1].expected);
}

TEST_F(JudgeTest, TheOperatorAuditNamesWhatTorchComputed) {
  const std::string by_hand = std::string(kPrelude) +
                              "import ctypes\n"
                              "class ModelNew(nn.Module):\n"
                              "    def forward(self, x):\n"
                              "        y = torch.empty(x.shape)\n"
                              "        source = (ctypes.c_float * x.numel()).from_address(x.data_ptr())\n"
                              "        out = (ctypes.c_float * x.numel()).from_address(y.data_ptr())\n"
                              "        for i, v in enumerate(source): out[i] = 2 * v if v > 0 else 0.0\n"
                              "        return y\n";
  const std::string swallows = by_hand.substr(0, by_hand.find("        y = ")) +
                               "        try: torch.relu(x)\n        except Exception: pass\n" +
                               by_hand.substr(by_hand.find("        y = "));
  const struct {
    std::string source;
    AuditReport::State state;
    std::string message;
  } table[] = {{by_hand, AuditReport::State::kOk, ""},
               {renamed(kTwice), AuditReport::State::kTorchCompute, "aten::relu"},
               {swallows, AuditReport::State::kTorchCompute, "aten::relu"}};
  for (const auto& row : table) {
    const TestChild reference = host_->fork("reference", kTwice), candidate = host_->fork("candidate", row.source);
    std::optional<TestChild> audit;
    JudgeCallbacks callbacks;
    callbacks.audit_child = [&] {
      audit.emplace(host_->fork("audit", row.source));
      return audit->handle();
    };
    const auto report = run(reference, candidate, callbacks);
    ASSERT_TRUE(report);
    EXPECT_EQ(verdict_of(*report), "pass") << report->message;
    EXPECT_EQ(report->audit.state, row.state) << report->audit.message;
    EXPECT_EQ(report->audit.message, row.message);
  }
}

TEST_F(JudgeTest, TimingHoldsTheLeaseAndSeesAFactor) {
  job_.timing = true;
  const std::string slow = renamed(kTwice) +
                           "_f = ModelNew.forward\ndef _slow(self, x):\n    for _ in range(40): _f(self, x)\n"
                           "    return _f(self, x)\nModelNew.forward = _slow\n";
  const TestChild reference = host_->fork("reference", kTwice), candidate = host_->fork("candidate", slow);
  int leases = 0;
  JudgeCallbacks callbacks;
  callbacks.timing_lease = [&] {
    ++leases;
    return std::make_shared<int>(1);
  };
  const auto report = run(reference, candidate, callbacks);
  ASSERT_TRUE(report);
  ASSERT_EQ(verdict_of(*report), "pass") << report->message;
  EXPECT_EQ(leases, 1);
  ASSERT_TRUE(report->timing);
  EXPECT_LT(report->timing->speedup, 0.5);
  EXPECT_GT(report->timing->candidate_ms.median, report->timing->eager_ms.median);
  EXPECT_GT(report->timing->candidate_ms.n, 0);
}

TEST_F(JudgeTest, ACandidateThatIsWrongOnlyWhenTimedFails) {
  job_.timing = true;
  const std::string lazy = renamed(kTwice) +
                           "_f = ModelNew.forward\nCALLS = []\ndef _lazy(self, x):\n    CALLS.append(1)\n"
                           "    if len(CALLS) > 6: return self.last\n    self.last = _f(self, x)\n"
                           "    return self.last\nModelNew.forward = _lazy\n";
  const TestChild reference = host_->fork("reference", kTwice), candidate = host_->fork("candidate", lazy);
  const auto report = run(reference, candidate);
  ASSERT_TRUE(report);
  EXPECT_EQ(verdict_of(*report), "fail/compare/wrong_values") << report->message;
}

// Containers that forbid process_vm_readv: the children copy, on both sides.
TEST_F(JudgeTest, WorksWhereMemoryCannotBeRead) {
  job_.timing = true;
  const std::string nested =
      std::string(kPrelude) +
      "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
      "        self.lin = nn.Linear(64, 8)\n"
      "    def forward(self, x): return {'y': self.lin(x), 'z': [x[:, ::2], None, torch.empty(0, 3)]}\n"
      "def get_inputs(): return [torch.randn(16, 64)]\ndef get_init_inputs(): return []\n";
  std::string wrong = renamed(nested);
  wrong.replace(wrong.find("x[:, ::2]"), 9, "x[:, 1::2]");
  const TestChild reference = host_->fork("reference", nested);
  for (const auto& [source, verdict] :
       {std::pair(renamed(nested), "pass"), std::pair(wrong, "fail/compare/wrong_values")}) {
    const TestChild candidate = host_->fork("candidate", source);
    const auto report =
        judge_->run(job_, {{reference.handle().fd, -1}, {candidate.handle().fd, -1}, {}}, {}, cancelled_);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(verdict_of(*report), verdict) << report->message;
    if (report->timing) {
      EXPECT_EQ(report->timing->method, "gated_cpu_copied");
    }
    EXPECT_EQ(report->timing.has_value(), report->outcome == Outcome::kPass);
  }
}

TEST_F(JudgeTest, CancellingEndsTheJobAndSparesTheJudge) {
  const std::string hangs = renamed(kTwice) + "import time\nModelNew.forward = lambda self, x: time.sleep(100)\n";
  job_.call_s = 30;
  const TestChild reference = host_->fork("reference", kTwice);
  {
    const TestChild candidate = host_->fork("candidate", hangs);
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      cancelled_ = true;
    });
    const Stopwatch watch;
    const auto report = run(reference, candidate);
    later.join();
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, "cancelled");
    EXPECT_LT(watch.seconds(), 10);
  }
  cancelled_ = false;
  ASSERT_TRUE(judge_->alive());
  const TestChild candidate = host_->fork("candidate", renamed(kTwice));
  const auto report = run(reference, candidate);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(verdict_of(*report), "pass");
}

TEST_F(JudgeTest, AJudgeThatDiesIsAnErrorOfItsOwn) {
  const std::string hangs = renamed(kTwice) + "import time\nModelNew.forward = lambda self, x: time.sleep(100)\n";
  job_.call_s = 30;
  const TestChild reference = host_->fork("reference", kTwice), candidate = host_->fork("candidate", hangs);
  std::thread killer([&, pid = judge_->pid()] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::kill(pid, SIGKILL);
  });
  const auto report = run(reference, candidate);
  killer.join();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, "judge");
  EXPECT_FALSE(judge_->alive());
}

}  // namespace
}  // namespace kz::keck
