// Judges and the zygote may die at any moment: nothing is lost with them.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "keck/worker/evaluator_fixture.h"

namespace kz::keck {
namespace {

const std::string kRelu = module_of("x = torch.relu(x)");
const std::string kRight = triton_elementwise("tl.maximum(v, 0.0)");

// Our own children (and theirs) whose command line holds `word`.
std::vector<pid_t> children_with(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto command = read_file(entry.path() / "cmdline"), status = read_file(entry.path() / "stat");
    if (!command || !status || command->find(word) == std::string::npos) continue;
    const std::string after = status->substr(status->rfind(')') + 4);
    if (std::stoi(after) == getpid()) found.push_back(std::stoi(name));
  }
  return found;
}

class Recovery : public EvaluatorTest {
 protected:
  static void expect_right(const char* when) {
    const Verdict verdict = judge(kRelu, kRight, "triton");
    EXPECT_EQ(summary(verdict), "pass accepted") << when << ": " << verdict.message;
  }
};

TEST_F(Recovery, FromADeadZygote) {
  expect_right("before");
  const auto zygotes = children_with("keck_worker.zygote");
  ASSERT_EQ(zygotes.size(), 1u);
  ::kill(zygotes[0], SIGKILL);
  expect_right("after the zygote's death");
  EXPECT_EQ(evaluator().statistics().value("zygote_restarts", 0.0), 1.0);
}

TEST_F(Recovery, FromAZygoteThatDiesUnderAJob) {
  std::thread killer([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (pid_t pid : children_with("keck_worker.zygote")) ::kill(pid, SIGKILL);
  });
  const Verdict verdict = judge(kRelu, "import time\ntime.sleep(1)\n" + kRight, "triton", false, 30);
  killer.join();
  // Its child dies with the zygote, by no fault of its own.
  EXPECT_EQ(summary(verdict), "pass accepted") << verdict.message;
}

TEST_F(Recovery, FromDeadJudges) {
  expect_right("before");
  const auto judges = children_with("keck-judge");
  ASSERT_FALSE(judges.empty());
  for (pid_t pid : judges) ::kill(pid, SIGKILL);
  for (size_t i = 0; i <= judges.size(); ++i) expect_right("after the judges' death");
}

}  // namespace
}  // namespace kz::keck
