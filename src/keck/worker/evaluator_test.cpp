// Verdicts end to end: real zygote, compiler, judge and sandbox.
#include <gmock/gmock.h>

#include "keck/worker/evaluator_fixture.h"

namespace kz::keck {
namespace {

using testing::HasSubstr;

const std::string kRelu = module_of("x = torch.relu(x)");

struct Case {
  const char* name;
  std::string module, candidate, backend, expected;
};

class Verdicts : public EvaluatorTest {};

TEST_F(Verdicts, Table) {
  const std::string good = cpp_elementwise("return v > 0 ? v : 0;");
  const std::string torch_only =
      "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n";
  const std::vector<Case> cases = {
      {"right", kRelu, good, "cpp", "pass accepted"},
      {"wrong values", kRelu, cpp_elementwise("return v;"), "cpp", "fail compare wrong_values"},
      {"does not compile", kRelu, cpp_elementwise("return w;"), "cpp", "fail build compile_error"},
      {"no ModelNew", kRelu, "import torch\n", "cpp", "fail format no_model_new"},
      {"syntax error", kRelu, "import torch\nclass ModelNew(:\n", "cpp", "fail format syntax_error"},
      {"bad encoding", kRelu, "x = '\xff'\n", "cpp", "fail format bad_encoding"},
      {"empty", kRelu, " \n", "cpp", "fail format empty"},
      {"import error", kRelu, "import no_such_module\n", "cpp", "fail load import_error"},
      {"raises at load", kRelu, "x = 1 / 0\n", "cpp", "fail load exception"},
      {"exits at load", kRelu, "import sys\nsys.exit(0)\n", "cpp", "fail load exit"},
      {"pasted module", kRelu, torch_only, "cpp", "pass refused policy torch_compute"},
      {"no Model", "import torch\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n", good, "cpp",
       "unscored task no_model"},
      {"module raises", kRelu + "\nraise ValueError('x')\n", good, "cpp", "unscored task exception"},
      {"both are defective", "import torch\n", "import torch\n", "cpp", "unscored task no_model"},
      {"cuda without a device", kRelu, good, "cuda", "unscored host no_device"},
      {"triton right", kRelu, triton_elementwise("tl.maximum(v, 0.0)"), "triton", "pass accepted"},
      {"triton wrong", kRelu, triton_elementwise("v + 1.0"), "triton", "fail compare wrong_values"},
      {"triton pasted", kRelu, torch_only, "triton", "pass refused policy torch_compute"},
  };
  for (const Case& c : cases) {
    const Verdict verdict = judge(c.module, c.candidate, c.backend);
    EXPECT_EQ(summary(verdict), c.expected) << c.name << ": " << verdict.message << "\n"
                                            << verdict.log_tail << verdict.build.log;
    RecordProperty(c.name, std::to_string(verdict.cpu_seconds));
  }
}

TEST_F(Verdicts, SayWhere) {
  const Verdict wrong = judge(kRelu, cpp_elementwise("return v > 0 ? v : 0.01f;"));
  ASSERT_EQ(summary(wrong), "fail compare wrong_values") << wrong.message;
  ASSERT_TRUE(wrong.correctness && wrong.correctness->first_mismatch);
  EXPECT_DOUBLE_EQ(wrong.correctness->first_mismatch->expected, 0.0);
  const Verdict raised = judge(kRelu, "import torch\n\nx = undefined_name\n");
  EXPECT_THAT(raised.message, HasSubstr("line 3: NameError"));
  const Verdict build = judge(kRelu, cpp_elementwise("return undeclared;"));
  EXPECT_THAT(build.message, HasSubstr("undeclared"));
}

TEST_F(Verdicts, TimeWhatIsRight) {
  const Verdict verdict = judge(kRelu, cpp_elementwise("return v > 0 ? v : 0;"), "cpp", true);
  ASSERT_EQ(summary(verdict), "pass accepted") << verdict.message;
  ASSERT_TRUE(verdict.timing);
  if (verdict.timing->decision == Decision::kAmbiguous) GTEST_SKIP() << "the machine is too busy to time anything";
  EXPECT_GT(verdict.timing->candidate_ms.median, 0);
  EXPECT_GT(verdict.timing->speedup, 0);
}

// The bound is for a quiet machine; tests share theirs.
TEST_F(Verdicts, AreCheap) {
  const std::string good = cpp_elementwise("return v > 0 ? v : 0;");
  judge(kRelu, good);
  double cpu = 0;
  for (int i = 0; i < 5; ++i) {
    const Verdict verdict = judge(kRelu, good);
    ASSERT_EQ(summary(verdict), "pass accepted") << verdict.message;
    EXPECT_EQ(verdict.build.cache, "hit");
    cpu += verdict.cpu_seconds / 5;
  }
  RecordProperty("cpu_seconds", std::to_string(cpu));
  EXPECT_LT(cpu, 0.4);
}

}  // namespace
}  // namespace kz::keck
