// A run on a disk that is really full (a tmpfs in a mount namespace of this test): it says so and ends, and goes on
// where it was once there is room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <fstream>

#include "app/kernelzero/run_cli.h"
#include "app/kernelzero/run_numbers.h"
#include "base/text.h"

namespace kz::app {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class FullDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs::exists("models/nano/model.safetensors"));
    ASSERT_TRUE(make_dirs(disk()));
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      GTEST_SKIP() << "this host permits no mount namespace";
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", disk().c_str(), "tmpfs", 0, "size=64k") != 0)
      GTEST_SKIP() << "this host permits no mount";
  }
  void TearDown() override { ::umount2(disk().c_str(), MNT_DETACH); }

  fs::path disk() const { return dir_.path() / "disk"; }
  void grow_to(int kilobytes) const {
    const std::string size = "size=" + std::to_string(kilobytes) + "k";
    ASSERT_EQ(::mount("none", disk().c_str(), nullptr, MS_REMOUNT, size.c_str()), 0);
  }
  static void expect_full(const Ran& ran, const fs::path& place) {
    EXPECT_EQ(ran.exit_code, 2) << ran.err;
    const auto lines = split(ran.err, '\n');  // progress stands there too; the last one says it
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(), [](auto& l) { return l.starts_with("kernelzero: "); }), 1);
    const std::string line = lines.back().empty() ? lines[lines.size() - 2] : lines.back();
    EXPECT_TRUE(line.starts_with("kernelzero: ")) << ran.err;
    EXPECT_THAT(line, HasSubstr(place.string()));
    EXPECT_THAT(line, AnyOf(HasSubstr("No space left"), HasSubstr("disk is full"))) << line;
    EXPECT_THAT(line, AnyOf(HasSubstr("free some space"), HasSubstr("free disk space")));
  }
  static std::vector<std::string> evolve(const fs::path& runs) {
    return {"evolve", "configs/tiny.toml",  "--runs", runs.string(),        "--set", "loop.rounds=1",
            "--set",  "loop.coder_steps=1", "--set",  "evaluation.count=2", "--set", "proposer.lists=2"};
  }

  TempDir dir_ = *TempDir::make(fs::temp_directory_path(), "kevolve-disk-");
};

TEST_F(FullDiskTest, ARunIsStoppedAndGoesOnWithNothingLost) {
  const fs::path calm = dir_.path() / "calm" / "tiny", run = disk() / "tiny";
  const Ran recorded = run_cli(evolve(dir_.path() / "calm"));
  ASSERT_EQ(recorded.exit_code, 0) << recorded.err;

  // The same run again, by its verdicts (a Keck for each start would take minutes), room by room: for the folder, the
  // store, its verdicts, one checkpoint, the next. Each start ends where the disk does.
  int stopped = 0;
  bool resumed = false;
  Ran ran;
  for (int kilobytes = 64; kilobytes < (1 << 18); kilobytes *= 3) {
    grow_to(kilobytes);
    const bool begun = fs::exists(run / "run.db");
    auto arguments = begun ? std::vector<std::string>{"evolve", "--resume", run.string()} : evolve(disk());
    arguments.insert(arguments.end(), {"--replay", calm.string()});
    ran = run_cli(arguments);
    if (ran.exit_code == 0) {
      resumed = begun;
      break;
    }
    expect_full(ran, run);
    ++stopped;
  }
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_GE(stopped, 3);
  EXPECT_TRUE(resumed) << "no start was stopped in the middle: no test of anything";
  EXPECT_EQ(run_numbers(run), run_numbers(calm));

  std::ofstream ballast(disk() / "ballast", std::ios::binary);
  for (const std::string block(4096, 'x'); ballast << block << std::flush;) {
  }
  expect_full(run_cli({"report", run.string()}), run);
}

}  // namespace
}  // namespace kz::app
