#include "keck/build/flags.h"

#include <gmock/gmock.h>

namespace kz::keck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Flags, WhatKernelsAskForIsAllowed) {
  const auto flags = check_flags({"-O3", "-march=native", "-fopenmp", "-ffast-math", "-funroll-loops", "-Wall",
                                  "-std=c++20", "-DN=4", "-mavx2", "-mfma", "-fno-math-errno"},
                                 {"-fopenmp", "-lgomp", "-lm", "-ltorch"});
  ASSERT_TRUE(flags) << flags.error().message;
  EXPECT_EQ(flags->compile.size(), 11u);
  EXPECT_THAT(flags->link, ElementsAre("-fopenmp", "-lgomp", "-lm"));  // torch is behind the shim
  EXPECT_TRUE(flags->native);
}

TEST(Flags, LevelsOfOptimisationShareAPrecompiledHeader) {
  EXPECT_EQ(check_flags({"-O1"}, {})->precompiled, check_flags({"-O3"}, {})->precompiled);
  EXPECT_NE(check_flags({}, {})->precompiled, check_flags({"-O3"}, {})->precompiled);
  EXPECT_NE(check_flags({"-O3", "-fopenmp"}, {})->precompiled, check_flags({"-O3"}, {})->precompiled);
  EXPECT_EQ(check_flags({"-O3", "-O0"}, {})->precompiled, check_flags({}, {})->precompiled);
}

TEST(Flags, WhatLoadsCodeReadsFilesOrRunsProgramsIsRefused) {
  for (const char* flag : {"-fplugin=/tmp/x.so",
                           "-fplugin-arg-x-y=1",
                           "-B/tmp",
                           "-B",
                           "-wrapper",
                           "@args",
                           "-include",
                           "-include/etc/passwd",
                           "-imacros",
                           "-I/etc",
                           "-I",
                           "-isystem",
                           "-iquote.",
                           "-specs=/tmp/s",
                           "--sysroot=/",
                           "-x",
                           "-xassembler",
                           "-o",
                           "-Wl,-rpath,/tmp",
                           "-Wl,--dynamic-linker=/x",
                           "-Wa,-I,/etc",
                           "-Wp,-I/etc",
                           "-fdump-tree-all",
                           "-save-temps",
                           "-fprofile-use=/etc",
                           "-fsanitize=address",
                           "-L/tmp",
                           "-l:x",
                           "-M",
                           "-MF/etc/x",
                           "-E",
                           "-S",
                           "/etc/passwd",
                           "x.o",
                           "-Xlinker",
                           "-T/tmp/x",
                           "-march=native;reboot",
                           "-DX=$(id)/../",
                           "-fdebug-prefix-map=a=b",
                           "-shared",
                           "-static",
                           "-fuse-ld=bfd",
                           "-pass-exit-codes",
                           "-###",
                           "--help",
                           "-fcompare-debug",
                           "-frandom-seed=1",
                           "-flto"}) {
    const auto checked = check_flags({flag}, {});
    if (std::string(flag) == "-DX=$(id)/../") continue;  // a macro's value is text for the compiler, not for a shell
    ASSERT_FALSE(checked) << flag;
    EXPECT_EQ(checked.error().code, "forbidden_flag");
    EXPECT_THAT(checked.error().message, HasSubstr(flag));
  }
  for (const char* flag :
       {"-Wl,-T,/tmp/x", "-Wl,--version-script=x", "-L/tmp", "-lcublas", "-lmkl", "-lX11", "x.o", "@x",
        "-Wl,-rpath,/tmp", "-Wl,--wrap,malloc", "-fplugin=x", "-B.", "-l:libc.so", "-Wl,-plugin,x"})
    EXPECT_FALSE(check_flags({}, {flag})) << flag;
}

}  // namespace
}  // namespace kz::keck
