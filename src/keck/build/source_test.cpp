#include "keck/build/source.h"

#include <gmock/gmock.h>

namespace kz::keck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(Mentions, WordsAreThoseOutsideCommentsAndLiterals) {
  const auto m = mentions_of(
      "int a = 0x1f; // hidden\n/* gone\nmore */ auto s = \"text in \\\" quotes\"; char c = 'q';\n"
      "auto r = R\"x(raw \" word)x\"; float f = 1e5f, g = 1'000;\nint spl\\\nit;\n");
  EXPECT_THAT(m.words,
              UnorderedElementsAre("int", "a", "auto", "s", "char", "c", "r", "R", "float", "f", "g", "split"));
}

TEST(Mentions, DirectivesAreRead) {
  const auto m = mentions_of(
      "#include <torch/extension.h>\n  # include \"a b.h\"\n#if defined(X) && Y > 2 // Z\n#elif W\n#endif\n"
      "#ifdef V\n#endif\n#define include foo\nusing namespace at; using namespace torch::indexing;\n");
  EXPECT_THAT(m.includes, ElementsAre("torch/extension.h", "a b.h"));
  EXPECT_THAT(m.tested, UnorderedElementsAre("defined", "X", "Y", "W", "V"));
  EXPECT_THAT(m.opened, UnorderedElementsAre("at", "torch"));
  EXPECT_FALSE(m.computed_include);
  EXPECT_TRUE(mentions_of("#include HEADER\n").computed_include);
}

TEST(Mentions, ThePathOfAHeaderIsNoName) {
  const Mentions m = mentions_of("#include <torch/extension.h>\n#define F(x) include<x>\nint y;\n");
  EXPECT_EQ(m.words.count("extension"), 0U);
  EXPECT_EQ(m.words.count("torch"), 0U);
  EXPECT_EQ(m.words.count("x"), 1U);
  EXPECT_EQ(m.words.count("y"), 1U);
}

TEST(Mentions, AQuoteInACommentOrANumberOpensNothing) {
  EXPECT_EQ(mentions_of("// it's\nint after;\n").words.count("after"), 1u);
  EXPECT_EQ(mentions_of("int a = 1'000'000; int after;\n").words.count("after"), 1u);
  EXPECT_EQ(mentions_of("auto s = \"never closed\nint after;\n").words.count("after"), 1u);
}

TEST(Unit, JoinsSourcesAsTorchDoes) {
  BuildRequest request;
  request.cpp_sources = {"int a;", "int b;"};
  request.functions = {"f"};
  EXPECT_THAT(
      units_of(request),
      ElementsAre(
          "#line 1 \"cpp_sources[0]\"\nint a;\n#line 1 \"cpp_sources[1]\"\nint b;\n#line 1 \"functions\"\n"
          "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\nm.def(\"f\", torch::wrap_pybind_function(f), \"f\");\n}\n"));
  request.functions.clear();
  request.cpp_sources = {"// ends in a backslash \\", "int b;"};
  EXPECT_THAT(units_of(request), ElementsAre("#line 1 \"cpp_sources[0]\"\n// ends in a backslash \\\nint b;\n"));
}

TEST(Unit, FilesOfLoadStayApart) {
  BuildRequest request;
  request.implicit_headers = false;
  request.cpp_sources = {"static int a;", "static int a;"};
  EXPECT_THAT(units_of(request), ElementsAre("#line 1 \"cpp_sources[0]\"\nstatic int a;\n",
                                             "#line 1 \"cpp_sources[1]\"\nstatic int a;\n"));
  EXPECT_TRUE(extension_comes_first("#include <vector>\n#include <torch/extension.h>\n#define A 1\n"));
  EXPECT_FALSE(extension_comes_first("#define private public\n#include <torch/extension.h>\n"));
  EXPECT_FALSE(extension_comes_first("#include <ATen/ATen.h>\n#include <torch/extension.h>\n"));
  EXPECT_FALSE(extension_comes_first("int a;\n"));
}

// A kit of a few words, in place of the fifty thousand of the real headers.
class NeedsFull : public ::testing::Test {
 protected:
  NeedsFull() : dir_(*TempDir::make(fs::temp_directory_path(), "kz-source-")) {
    const auto list = [&](const char* words) {
      EXPECT_TRUE(write_file_atomic(dir_.path() / "w", words));
      return std::move(*WordList::load(dir_.path() / "w"));
    };
    kit_.real = list("THPVariable_Wrap\ngrad_fn\nTORCH_VERSION\nsizes\n");
    kit_.missing = list("THPVariable_Wrap\ngrad_fn\nTORCH_VERSION\n");
    kit_.global = list("THPVariable_Wrap\nTORCH_VERSION\n");
    kit_.conflict = list("THPVariable_Wrap\nTORCH_VERSION\n");
    kit_.brought = list("torch/extension.h\nATen/ATen.h\n");
  }
  std::string why(const std::string& source) {
    forwarders_.clear();
    return needs_full(mentions_of(source), kit_, &forwarders_);
  }
  TempDir dir_;
  Kit kit_;
  std::vector<std::string> forwarders_;
};

TEST_F(NeedsFull, OrdinarySourcesDoNot) {
  EXPECT_EQ(why("#include <torch/extension.h>\n#include <ATen/ATen.h>\n#include <cmath>\nint grad_fn = sizes;\n"), "");
  EXPECT_THAT(forwarders_, ElementsAre("torch/extension.h", "ATen/ATen.h"));
  EXPECT_EQ(why("// THPVariable_Wrap\nauto s = \"TORCH_VERSION\";"), "");
}

TEST_F(NeedsFull, WhatCouldMeanSomethingElseWithTheRealHeaders) {
  EXPECT_THAT(why("#if __has_include(<x>)\n#endif\n"), HasSubstr("__has_include"));
  EXPECT_THAT(why("template <class T> requires true void f();"), HasSubstr("requires"));
  EXPECT_THAT(why("#include <ATen/cpu/vec/vec.h>\n"), HasSubstr("ATen/cpu/vec/vec.h"));
  EXPECT_THAT(why("#include HEADER\n"), HasSubstr("macro"));
  EXPECT_THAT(why("#if grad_fn\n#endif\n"), HasSubstr("grad_fn"));
  EXPECT_THAT(why("int THPVariable_Wrap;"), HasSubstr("THPVariable_Wrap"));
  EXPECT_THAT(why("using namespace torch; int grad_fn;"), HasSubstr("grad_fn"));
  EXPECT_EQ(why("using namespace std; int grad_fn;"), "");
}

}  // namespace
}  // namespace kz::keck
