#include "base/process.h"

#include <gtest/gtest.h>

namespace kz {
namespace {

TEST(Process, FeedsAndReadsMoreThanAPipeHolds) {
  const std::string input(3 << 20, 'x');
  EXPECT_EQ(run_program({"cat"}, input).value().size(), input.size());
}

TEST(Process, EnvironmentIsAdded) {
  EXPECT_EQ(run_program({"sh", "-c", "printf %s \"$KZ_X\""}, "", {"KZ_X=1 2"}).value(), "1 2");
}

TEST(Process, EndsAreErrors) {
  EXPECT_EQ(run_program({"sh", "-c", "exit 3"}, "").error().message, "sh: exit 3");
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}, "input nobody reads").error().message, "sh: ended by signal 9");
  EXPECT_EQ(run_program({"no-such-program-kz"}, "").error().code, "process");
}

}  // namespace
}  // namespace kz
