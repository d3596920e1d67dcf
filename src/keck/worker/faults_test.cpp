// A candidate that dies, hangs, floods, breeds or lies is its own failure and nobody else's (threats.md, part 3).
#include <gmock/gmock.h>

#include <thread>

#include "keck/worker/evaluator_fixture.h"

namespace kz::keck {
namespace {

const std::string kRelu = module_of("x = torch.relu(x)");
const std::string kRight = triton_elementwise("tl.maximum(v, 0.0)");

// Code that runs at import, or in forward.
std::string at_import(const std::string& code) {
  return "import os, socket, sys, time, torch\n" + code + "\n" + triton_elementwise("tl.maximum(v, 0.0)");
}
std::string in_forward(const std::string& code) {
  return "import os, socket, sys, time, torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        " +
         code + "\n        return x\n";
}

struct Fault {
  const char* name;
  std::string candidate, expected;
  double deadline_s = 4;
};

class Faults : public EvaluatorTest {};

TEST_F(Faults, AreTheCandidatesOwn) {
  const std::vector<Fault> faults = {
      {"prints a verdict and exits", at_import("print('{\"outcome\": \"pass\"}'); sys.stdout.flush(); os._exit(0)"),
       "fail load exit"},
      {"exits in forward", in_forward("print('{\"outcome\": \"pass\"}'); os._exit(0)"), "fail run exit"},
      {"sleeps for ever", at_import("time.sleep(1e6)"), "fail load timeout"},
      {"sleeps in forward", in_forward("time.sleep(1e6)"), "fail run timeout"},
      {"crashes", at_import("os.kill(os.getpid(), 11)"), "fail load crash"},
      {"crashes in forward", in_forward("import ctypes; ctypes.string_at(8)"), "fail run crash"},
      {"writes outside", at_import("open('/etc/kz-test', 'w')"), "fail load exception"},
      {"opens a socket", at_import("socket.create_connection(('1.1.1.1', 80), 5)"), "fail load exception"},
      {"floods its output", at_import("while True: os.write(1, b'x' * 65536)"), "fail load output_flood"},
      {"eats memory", at_import("b = []\nwhile True: b.append(bytearray(b'x') * (1 << 24))"), "fail load memory", 30},
  };
  for (const Fault& fault : faults) {
    const Verdict verdict = judge(kRelu, fault.candidate, "triton", false, fault.deadline_s);
    EXPECT_EQ(summary(verdict), fault.expected) << fault.name << ": " << verdict.message << "\n" << verdict.log_tail;
    const Verdict next = judge(kRelu, kRight, "triton");
    EXPECT_EQ(summary(next), "pass accepted") << "after one that " << fault.name << ": " << next.message;
  }
}

TEST_F(Faults, AForkBombFailsAndLeavesNothing) {
  const Verdict verdict = judge(
      kRelu, at_import("while True:\n    try: os.fork()\n    except OSError: time.sleep(0.01)"), "triton", false, 4);
  EXPECT_EQ(verdict.outcome, Outcome::kFail) << summary(verdict) << verdict.message;
  const Verdict next = judge(kRelu, kRight, "triton");
  EXPECT_EQ(summary(next), "pass accepted") << next.message;
}

TEST_F(Faults, GarbageOnTheChannelIsAProtocolFault) {
  const std::string garbage =
      "import os\nfor fd in os.listdir('/proc/self/fd'):\n    try:\n        os.write(int(fd), b'garbage' * 100) if "
      "int(fd) > 2 else None\n"
      "    except OSError:\n        pass\n";
  const Verdict verdict = judge(kRelu, garbage + kRight, "triton", false, 4);
  EXPECT_EQ(verdict.outcome, Outcome::kFail) << summary(verdict) << verdict.message;
  EXPECT_EQ(summary(judge(kRelu, kRight, "triton")), "pass accepted");
}

TEST_F(Faults, KeepHeadAndTailOfTheOutput) {
  const Verdict verdict =
      judge(kRelu, at_import("print('HEAD')\nfor i in range(20000): print('line', i)\nprint('TAIL')"), "triton");
  EXPECT_EQ(summary(verdict), "pass accepted") << verdict.message;
  EXPECT_THAT(verdict.log_tail, testing::StartsWith("HEAD"));
  EXPECT_THAT(verdict.log_tail, testing::HasSubstr("TAIL"));
  EXPECT_LT(verdict.log_tail.size(), 8000u);
}

TEST_F(Faults, ACancelledJobEnds) {
  EvaluationRequest request;
  request.module = kRelu;
  request.candidate = at_import("time.sleep(1e6)");
  request.backend = "triton";
  std::atomic<bool> cancelled{false};
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    cancelled = true;
  });
  const Verdict verdict = evaluator().evaluate(request, cancelled);
  later.join();
  EXPECT_EQ(summary(verdict), "unscored host cancelled");
}

TEST_F(Faults, InnocentsBesideACulpritAreRight) {
  std::vector<std::thread> threads;
  std::vector<std::string> seen(8);
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      const bool culprit = i % 2 == 0;
      const std::string bad =
          i == 0 ? at_import("os.kill(os.getpid(), 9)") : at_import("while True: os.write(1, b'x' * 65536)");
      seen[i] = summary(judge(kRelu, culprit ? bad : kRight, "triton", false, 30));
    });
  for (auto& thread : threads) thread.join();
  for (int i = 1; i < 8; i += 2) EXPECT_EQ(seen[i], "pass accepted");
  EXPECT_EQ(seen[0], "fail load crash");
  EXPECT_EQ(seen[2], "fail load output_flood");
}

}  // namespace
}  // namespace kz::keck
