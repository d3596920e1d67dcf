#include "lm/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/json.h"
#include "base/random.h"

namespace kz::lm {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::vector<float>& v) { return std::as_bytes(std::span(v)); }

class Safetensors : public testing::Test {
 protected:
  fs::path file(const std::string& name = "model.safetensors") const { return dir_.path() / name; }
  // A file with this header and `data` bytes behind it.
  void write_raw(const std::string& header, size_t data, std::optional<uint64_t> claimed = {}) const {
    std::string out(8, '\0');
    const uint64_t n = claimed.value_or(header.size());
    std::memcpy(out.data(), &n, 8);
    ASSERT_TRUE(write_file_atomic(file(), out + header + std::string(data, '\1')));
  }
  std::string error(const std::string& header, size_t data, std::optional<uint64_t> claimed = {}) const {
    write_raw(header, data, claimed);
    const auto r = WeightFile::open(file());
    if (r) return "";
    EXPECT_EQ(r.error().message.find('\n'), std::string::npos);
    EXPECT_THAT(r.error().message, HasSubstr(file().string()));
    return r.error().message;
  }
  TempDir dir_ = TempDir::make(fs::temp_directory_path(), "kz-safetensors-").value();
};

TEST_F(Safetensors, ReadsWhatItWrote) {
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{-1};
  ASSERT_TRUE(write_safetensors(file(),
                                {{"b", Dtype::kF32, {1}, bytes_of(b)},
                                 {"a", Dtype::kF32, {2, 3}, bytes_of(a)},
                                 {"none", Dtype::kF32, {0, 4}, {}}},
                                {{"k", "v"}}));
  const auto w = WeightFile::open(dir_.path()).value();
  EXPECT_EQ(w.tensors().size(), 3U);
  EXPECT_EQ(w.metadata().at("k"), "v");
  const TensorView v = w.get("a").value();
  EXPECT_EQ(v.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(v.bytes.data(), a.data(), 24), 0);
  EXPECT_THAT(w.get("c").error().message, HasSubstr("\"c\" is missing"));
}

TEST_F(Safetensors, RefusesFilesThatLie) {
  const std::string ok = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(error(ok, 8), "");
  EXPECT_THAT(error(ok, 7), HasSubstr("truncated"));
  EXPECT_THAT(error(ok, 9), HasSubstr("after the last tensor"));
  EXPECT_THAT(error(ok, 8, 1000), HasSubstr("claims 1000"));
  EXPECT_THAT(error(ok, 8, ~0ULL), HasSubstr("claims"));
  EXPECT_THAT(error(ok.substr(0, 20), 8), HasSubstr("header"));
  EXPECT_THAT(error("[]", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,12]}})", 12), HasSubstr("need 8"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), HasSubstr("lies at"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8), HasSubstr("pair"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8), HasSubstr("F99"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", 8),
              HasSubstr("overflows"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})", 8), HasSubstr("whole number"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[2]}})", 8), HasSubstr("data_offsets"));
  EXPECT_THAT(
      error(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
          12),
      HasSubstr("overlap"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12), HasSubstr("hole"));
  ASSERT_TRUE(write_file_atomic(file(), "abc"));
  EXPECT_THAT(WeightFile::open(file()).error().message, HasSubstr("3 bytes"));
  EXPECT_FALSE(WeightFile::open(dir_.path() / "no"));
}

// Whatever is cut or flipped, the reader answers; it never reads outside the file (the sanitizers watch).
TEST_F(Safetensors, SurvivesDamage) {
  const std::vector<float> a(64, 1.0F);
  ASSERT_TRUE(
      write_safetensors(file(), {{"a", Dtype::kF32, {8, 8}, bytes_of(a)}, {"b", Dtype::kBF16, {128}, bytes_of(a)}}));
  const std::string good = read_file(file()).value();
  Rng rng(1);
  for (int i = 0; i < 300; ++i) {
    std::string bad = good.substr(0, i % 3 == 0 ? rng.below(good.size()) : good.size());
    for (int k = 0; k < 3 && !bad.empty(); ++k)
      bad[rng.below(std::min<size_t>(bad.size(), 160))] = static_cast<char>(rng());
    ASSERT_TRUE(write_file_atomic(file(), bad));
    const auto w = WeightFile::open(file());
    if (!w) continue;
    for (const auto& [name, view] : w->tensors()) {
      unsigned sum = 0;
      for (const std::byte b : view.bytes) sum += std::to_integer<unsigned>(b);
      EXPECT_LE(sum, 255U * view.bytes.size());
    }
  }
}

TEST_F(Safetensors, ShardsByIndex) {
  const std::vector<float> a{1}, b{2};
  ASSERT_TRUE(write_safetensors(file("s1.safetensors"), {{"a", Dtype::kF32, {1}, bytes_of(a)}}));
  ASSERT_TRUE(write_safetensors(file("s2.safetensors"), {{"b", Dtype::kF32, {1}, bytes_of(b)}}));
  const auto index = [&](const Json& map) {
    ASSERT_TRUE(write_file_atomic(file("model.safetensors.index.json"), Json{{"weight_map", map}}.dump()));
  };
  index({{"a", "s1.safetensors"}, {"b", "s2.safetensors"}});
  EXPECT_EQ(WeightFile::open(dir_.path()).value().tensors().size(), 2U);
  index({{"a", "s1.safetensors"}, {"c", "s2.safetensors"}});
  EXPECT_THAT(WeightFile::open(dir_.path()).error().message, HasSubstr("\"c\" is not in s2"));
  index({{"a", "../s1.safetensors"}});
  EXPECT_THAT(WeightFile::open(dir_.path()).error().message, HasSubstr("no file name"));
  index({{"a", "s1.safetensors"}, {"b", "missing.safetensors"}});
  EXPECT_THAT(WeightFile::open(dir_.path()).error().message, HasSubstr("missing.safetensors"));
}

}  // namespace
}  // namespace kz::lm
