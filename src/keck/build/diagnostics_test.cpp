#include "keck/build/diagnostics.h"

#include <gmock/gmock.h>

namespace kz::keck {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FirstDiagnostic : public ::testing::Test {
 protected:
  FirstDiagnostic() : dir_(*TempDir::make(fs::temp_directory_path(), "kz-diagnostics-")) {
    const auto list = [&](const char* words) {
      EXPECT_TRUE(write_file_atomic(dir_.path() / "w", words));
      return std::move(*WordList::load(dir_.path() / "w"));
    };
    kit_.real = list("tensor\nrelu\nx\nindex\ngrad_fn\nmax\nTensor\nTORCH_CHECK\n");
    kit_.missing = list("grad_fn\n");
    kit_.global = list("index\n");
    kit_.conflict = list("\n");
    kit_.brought = list("\n");
    kit_.tensor = list("relu\nindex\n");
  }
  // The reason to doubt the first error of this output, "" when it is final.
  std::string verdict(const std::string& output, const std::string& source = "int main;") {
    Diagnostic first;
    EXPECT_TRUE(first_error(output, &first)) << output;
    return doubt(first, mentions_of(source), kit_);
  }
  TempDir dir_;
  Kit kit_;
};

TEST_F(FirstDiagnostic, IsFoundBehindWarningsAndContext) {
  Diagnostic d;
  ASSERT_TRUE(
      first_error("cpp_sources[0]: In function 'at::Tensor f(at::Tensor)':\n"
                  "cpp_sources[0]:2:7: warning: unused variable 'k' [-Wunused-variable]\n"
                  "    2 |   int k;\n      |       ^\n"
                  "cpp_sources[0]:3:10: error: 'foo' was not declared in this scope\n"
                  "    3 |   return foo(x);\n      |          ^~~\n"
                  "cpp_sources[0]:1:1: note: a note of it\n"
                  "cpp_sources[0]:9:1: error: another\n",
                  &d));
  EXPECT_EQ(d.file, "cpp_sources[0]");
  EXPECT_EQ(d.line, 3);
  EXPECT_EQ(d.message, "'foo' was not declared in this scope");
  EXPECT_THAT(d.notes, HasSubstr("a note of it"));
  EXPECT_THAT(d.notes, Not(HasSubstr("at::Tensor")));
  EXPECT_THAT(d.shown, HasSubstr("return foo(x)"));
  EXPECT_FALSE(first_error("mold: error: undefined\ncollect2: error: ld returned 1 exit status\n", &d));
  EXPECT_FALSE(first_error("", &d));
}

TEST_F(FirstDiagnostic, ANameThatTheRealHeadersNeverMentionIsFinal) {
  EXPECT_EQ(verdict("cpp_sources[0]:3:10: error: 'columnz' was not declared in this scope\n"), "");
  EXPECT_EQ(verdict("cpp_sources[0]:3:10: error: 'class at::Tensor' has no member named 'reluu'\n"), "");
  EXPECT_EQ(verdict("cpp_sources[0]:3:10: error: 'reluu' is not a member of 'torch'\n"), "");
  EXPECT_EQ(verdict("cpp_sources[0]:3:10: error: 'FLT_MAX' was not declared in this scope\n"), "");
}

TEST_F(FirstDiagnostic, ANameThatTheyMentionIsFinalOnlyWhereItCannotBeSeen) {
  // A local variable's name that is a word in torch too, not called, nothing opened: only global names count.
  EXPECT_EQ(verdict("cpp_sources[0]:3:10: error: 'x' was not declared in this scope\n    3 |   return x;\n"), "");
  EXPECT_NE(verdict("cpp_sources[0]:3:10: error: 'index' was not declared in this scope\n    3 |   return index;\n"),
            "");
  // Found by its arguments, perhaps.
  EXPECT_NE(verdict("cpp_sources[0]:3:10: error: 'relu' was not declared in this scope\n    3 |   return relu(y);\n"),
            "");
  EXPECT_NE(verdict("cpp_sources[0]:3:10: error: 'tensor' was not declared in this scope\n    3 | return tensor;\n",
                    "using namespace torch;"),
            "");
  EXPECT_NE(verdict("cpp_sources[0]:3:10: error: 'tensor' is not a member of 'torch'\n"), "");
  EXPECT_NE(verdict("cpp_sources[0]:3:10: error: 'class at::Tensor' has no member named 'index'\n"), "");
}

TEST_F(FirstDiagnostic, AMessageOfTheCandidatesOwnTypesIsFinalUnlessTheSourceUsesWhatSlimLacks) {
  const std::string mismatch =
      "cpp_sources[0]:2:15: error: cannot convert 'float*' to 'double*' in initialization\n"
      "    2 |   double* p = x.data_ptr<float>();\n";
  EXPECT_EQ(verdict(mismatch), "");
  EXPECT_EQ(verdict(mismatch, "auto grad_fn = 1;"), "");  // a local name, which hides whatever torch has
  EXPECT_NE(verdict(mismatch, "auto a = x.grad_fn;"), "");
  EXPECT_NE(verdict(mismatch, "struct A : B { int a = grad_fn; };"), "");
  EXPECT_EQ(verdict("cpp_sources[0]:2:15: error: expected ';' before 'return'\n    2 |   auto y = torch::relu(x)\n"),
            "");
  EXPECT_NE(verdict("cpp_sources[0]:2:15: error: cannot convert 'at::Tensor' to 'c10::Scalar' in return\n"), "");
  EXPECT_EQ(verdict("cpp_sources[0]:2:15: error: cannot convert 'at::Tensor' to 'float' in return\n"), "");
  EXPECT_EQ(verdict("cpp_sources[0]:2:15: error: conversion from 'float' to non-scalar type 'at::Tensor' requested\n"),
            "");
}

// Seen in the rollouts of a model that learns: 70% of its sources that do not compile were doubted.
TEST_F(FirstDiagnostic, SyntaxIsFinalWhateverNamesTheSourceHas) {
  const std::string source = "#include <grad_fn/grad_fn.h>\nfloat* grad_fn; auto a = x.grad_fn;";
  EXPECT_EQ(verdict("cpp_sources[0]:17:65: error: expected ';' before ':' token\n", source), "");
  EXPECT_EQ(verdict("cpp_sources[0]:23:1: error: stray '@' in program\n", source), "");
  EXPECT_EQ(verdict("cpp_sources[0]:4:1: error: unterminated argument list invoking macro \"TORCH_CHECK\"\n", source),
            "");
  EXPECT_NE(verdict("cpp_sources[0]:4:1: error: expected ';' before 'TORCH_CHECK'\n", source), "");
  const std::string twice =
      "cpp_sources[0]:11:8: error: conflicting declaration 'auto out'\n"
      "cpp_sources[0]:9:14: note: previous declaration as 'at::Tensor out'\n";
  EXPECT_EQ(verdict(twice), "");
  EXPECT_NE(verdict("cpp_sources[0]:11:8: error: conflicting declaration 'int max'\n"
                    "/kz/torch/ATen/a.h:9:14: note: previous declaration as 'at::Tensor max'\n"),
            "");
}

TEST_F(FirstDiagnostic, AnArgumentOfARealMacroIsLikeAnyPlace) {
  const std::string in_dispatch =
      "    7 |     y = columnz;\n"
      "/kz/torch/ATen/Dispatch.h:10:2: note: in definition of macro 'AT_DISPATCH_SWITCH'\n"
      "cpp_sources[0]:5:3: note: in expansion of macro 'AT_DISPATCH_FLOATING_TYPES'\n";
  EXPECT_EQ(verdict("cpp_sources[0]:7:9: error: 'columnz' was not declared in this scope\n" + in_dispatch), "");
  EXPECT_EQ(verdict("cpp_sources[0]:7:9: error: expected ';' before 'y'\n" + in_dispatch), "");
  EXPECT_NE(verdict("cpp_sources[0]:7:9: error: 'max' was not declared in this scope\n" + in_dispatch), "");
  EXPECT_NE(verdict("cpp_sources[0]:7:9: error: 'columnz' was not declared in this scope\n"
                    "/kz/slim/kz/bind.h:10:2: note: in definition of macro 'PYBIND11_MODULE'\n"),
            "");
}

TEST_F(FirstDiagnostic, AMemberIsLookedUpAmongTheTensorsOwn) {
  EXPECT_EQ(verdict("cpp_sources[0]:3:10: error: 'class at::Tensor' has no member named 'x'\n"), "");
  EXPECT_NE(verdict("cpp_sources[0]:3:10: error: 'class at::Tensor' has no member named 'relu'\n"), "");
  EXPECT_NE(verdict("cpp_sources[0]:3:10: error: 'class c10::Scalar' has no member named 'x'\n"), "");
}

TEST_F(FirstDiagnostic, WhatLiesInHeadersOrTheirMacrosIsDoubted) {
  EXPECT_NE(verdict("/kz/slim/kz/bind.h:40:3: error: invalid use of incomplete type 'struct Arg<Thing>'\n"), "");
  EXPECT_NE(verdict("cpp_sources[0]:2:3: error: cannot convert 'int*' to 'float' in return\n    2 |   TORCH_CHECK(\n"
                    "/kz/torch/c10/util/Exception.h:10:2: note: in expansion of macro 'TORCH_CHECK'\n"),
            "");
  EXPECT_EQ(verdict("cpp_sources[0]:1:10: fatal error: no_such.h: No such file or directory\n"), "");
  // Only the first counts: what follows from a missing type looks certain and is not.
  EXPECT_NE(verdict("cpp_sources[0]:2:15: error: cannot convert 'at::Tensor' to 'c10::Scalar'\n"
                    "cpp_sources[0]:3:15: error: 'columnz' was not declared in this scope\n"),
            "");
}

TEST(Fault, WhatIsSaidOfOurOwnFilesIsOurs) {
  EXPECT_EQ(fault_of("<command-line>: fatal error: /kz/precompiled/slim-0/kz_unit.h: No such file or directory\n"),
            "toolchain");
  EXPECT_EQ(fault_of("cc1plus: fatal error: /kz/precompiled/full-0/kz_unit.h: No such file or directory\n"),
            "toolchain");
  EXPECT_EQ(fault_of("g++: fatal error: cannot execute 'cc1plus': execvp: No such file or directory\n"), "toolchain");
  EXPECT_EQ(fault_of("collect2: fatal error: cannot find 'ld'\ncompilation terminated.\n"), "toolchain");
  EXPECT_EQ(fault_of("collect2: error: ld returned 1 exit status\n"), "link_error");
  EXPECT_EQ(fault_of("cpp_sources[0]:3:10: error: 'x' was not declared in this scope\n"), "compile_error");
  EXPECT_EQ(fault_of("g++: error: unrecognized command-line option '-std=c++99'\n"), "compile_error");
  // A source that says so itself.
  EXPECT_EQ(fault_of("cpp_sources[0]:1:2: error: #error \"cc1plus: fatal error: kz_unit.h: No such file\"\n"),
            "compile_error");
  EXPECT_EQ(fault_of("cc1plus: fatal error: kz_unit.h: No such file:1:2: error: #error \"by #line\"\n"),
            "compile_error");
}

TEST(CleanLog, HidesOurFoldersAndIsCapped) {
  EXPECT_EQ(clean_log("/kz/slim/kz/bind.h:1: error\n", {"/kz/slim/"}), "kz/bind.h:1: error\n");
  const std::string log = clean_log(std::string(100, 'a') + "\n" + std::string(100, 'b') + "\n", {}, 150);
  EXPECT_THAT(log, HasSubstr("a\n"));
  EXPECT_THAT(log, Not(HasSubstr("b")));
}

}  // namespace
}  // namespace kz::keck
