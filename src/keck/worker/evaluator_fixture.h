// One evaluator for a whole test program: a zygote takes seconds to start, a verdict milliseconds.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "keck/worker/evaluator.h"

namespace kz::keck {

class EvaluatorTest : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

  static Verdict judge(const std::string& module, const std::string& candidate, const std::string& backend = "cpp",
                       bool timing = false, double deadline_s = 30);
  static ModuleReport gate(const std::string& module, const std::vector<std::string>& apis = {});
  static Evaluator& evaluator() { return *evaluator_; }

 private:
  static std::unique_ptr<TempDir> state_;
  static std::unique_ptr<Evaluator> evaluator_;
};

// "pass accepted", "fail run timeout", "unscored task no_model": what a table of cases compares.
std::string summary(const Verdict& verdict);

// Model whose forward is `body` (lines of x = …); inputs as text.
std::string module_of(const std::string& body, const std::string& inputs = "torch.randn(16, 64)",
                      const std::string& init = "", const std::string& parameters = "x");
// A load_inline candidate: `code` is the body of float f(float v), applied to each element.
std::string cpp_elementwise(const std::string& code);
// The same in Triton: an expression of v.
std::string triton_elementwise(const std::string& expression);

}  // namespace kz::keck
