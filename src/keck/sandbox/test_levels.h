// For the integration tests: a pool at each level that this host can give, and a skip that says what is missing.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "keck/sandbox/run.h"

namespace kz::keck::sandbox {

// "strong": everything; "weak": what a container without privileges has, forced also where the host could do better.
class LevelTest : public ::testing::TestWithParam<std::string> {
 protected:
  static const Capabilities& host() {
    static const Capabilities capabilities = probe_capabilities();
    return capabilities;
  }
  void SetUp() override {
    const auto level = choose(host(), GetParam());
    if (!level) GTEST_SKIP() << level.error().message;
    make_pool(*level);
  }
  void make_pool(Level level) {
    auto layout = find_layout();
    ASSERT_TRUE(layout) << layout.error().message;
    SlotPoolOptions options;
    options.capabilities = host();
    options.level = level;
    options.read_only = toolchain_binds(*layout);
    options.name = "test";
    options.max_slots = 8;
    auto pool = SlotPool::make(options);
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = std::move(*pool);
  }
  bool strong() const { return pool_->level() == Level::kStrong; }
  bool boxes() const { return pool_->describe()["files"] == "private root"; }

  std::unique_ptr<SlotPool> pool_;
};

}  // namespace kz::keck::sandbox
