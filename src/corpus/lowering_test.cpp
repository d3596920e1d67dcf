// Every lowering to C++ against the family's definition in double precision: one g++ call compiles them all, against
// the few lines of a stand-in for at::Tensor below. Torch itself is what Keck judges them by.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "base/files.h"
#include "corpus/reference.h"

namespace kz::corpus {
namespace {

const char* kStandIn = R"(
#include <cmath>
#include <cstdint>
#include <initializer_list>
#define TORCH_CHECK(condition) if (!(condition)) __builtin_trap()
namespace torch {
struct Tensor {
  float* data = nullptr;
  int64_t sizes[2] = {0, 0};
  bool is_contiguous() const { return true; }
  int64_t size(int d) const { return sizes[d]; }
  template <typename T> T* data_ptr() const { return data; }
};
inline Tensor& output() { static thread_local Tensor y; return y; }
inline Tensor empty(std::initializer_list<int64_t> shape) {
  output().sizes[0] = shape.begin()[0];
  output().sizes[1] = shape.begin()[1];
  return output();
}
}
)";

constexpr int kRows = 3;

struct Case {
  Chain chain;
  std::string label;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  Rng rng(17);
  auto add = [&](const std::vector<const Family*>& chain, size_t style) {
    for (int tries = 0; tries < 500; ++tries) {
      Chain drawn = draw_chain(rng, chain, 0);
      drawn.operators.back().style = style;
      if (!is_sound(rng, drawn)) continue;
      std::string label = style_text(drawn);
      for (const Family* family : chain) label += " " + family->name;
      list.push_back({std::move(drawn), std::move(label)});
      return;
    }
    ADD_FAILURE() << "no sound chain of " << chain.back()->name;
  };
  for (const Family& family : families())
    for (size_t style = 0; style < family.cpp.size(); ++style) add({&family}, style);
  while (list.size() < 150) {
    std::vector<const Family*> chain;
    for (uint64_t n = 2 + rng.below(3); chain.size() < n;) chain.push_back(&rng.pick(families()));
    if (!fits(chain)) continue;
    Chain drawn = draw_chain(rng, chain, 0.5);
    if (is_sound(rng, drawn)) list.push_back({std::move(drawn), "a composition"});
  }
  return list;
}

// The function of a candidate, as `forward<k>`, and a C entry point for it.
std::string function_of(const Chain& chain, size_t k) {
  const std::string text = cpp_text(chain), number = std::to_string(k);
  const size_t begin = text.find("torch::Tensor forward("), end = text.find("\"\"\"", begin);
  std::string code = "namespace f" + number + " {\n" + text.substr(begin, end - begin) + "}\nextern \"C\" void call" +
                     number + "(float** in, const int64_t (*shapes)[2], float* out) {\n  torch::output().data = out;\n";
  std::string arguments;
  size_t inputs = 1;
  for (const Operator& op : chain.operators) inputs += !op.input.empty();
  for (size_t i = 0; i < inputs; ++i) {
    const std::string n = std::to_string(i);
    arguments += (i ? ", " : "") + ("torch::Tensor{in[" + n + "], {shapes[" + n + "][0], shapes[" + n + "][1]}}");
  }
  return code + "  f" + number + "::forward(" + arguments + ");\n}\n";
}

struct Matrix {
  std::vector<float> values;
  std::array<int64_t, 2> shape{};
};

std::vector<Matrix> matrices(const Chain& chain, const ChainInputs& inputs) {
  std::vector<Matrix> list;
  auto add = [&](const std::vector<std::vector<double>>& rows, int64_t height, int64_t width) {
    Matrix matrix{.shape = {height, width}};
    for (const auto& row : rows) matrix.values.insert(matrix.values.end(), row.begin(), row.end());
    list.push_back(std::move(matrix));
  };
  add(inputs.x, kRows, chain.width);
  for (size_t k = 0; k < chain.operators.size(); ++k) {
    const Operator& op = chain.operators[k];
    if (op.input.empty()) continue;
    if (op.family->name == "linear")
      add(inputs.others[k], op.width_out, op.width_in);
    else if (op.family->kind == Kind::kWeight)
      add(inputs.others[k], op.width_in, op.width_out);
    else if (op.family->kind == Kind::kVector)
      add(inputs.others[k], op.width_in, 0);
    else
      add(inputs.others[k], kRows, op.width_in);
  }
  return list;
}

TEST(Lowering, EveryFamilyAndStyleComputesItsDefinition) {
  const auto folder = TempDir::make(fs::temp_directory_path(), "kz-lowering-");
  ASSERT_TRUE(folder);
  const std::vector<Case> list = cases();
  std::string source = kStandIn;
  for (size_t k = 0; k < list.size(); ++k) source += function_of(list[k].chain, k);
  const fs::path cpp = folder->path() / "all.cpp", so = folder->path() / "all.so";
  ASSERT_TRUE(write_file_atomic(cpp, source));
  const std::string command = "g++ -std=c++17 -O1 -w -shared -fPIC -o " + so.string() + " " + cpp.string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  void* library = dlopen(so.c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();

  for (size_t k = 0; k < list.size(); ++k) {
    const Chain& chain = list[k].chain;
    Rng rng(derive_seed(5, "inputs", k));
    const ChainInputs inputs = draw_inputs(rng, chain, kRows);
    std::vector<Matrix> arguments = matrices(chain, inputs);
    std::vector<float*> pointers;
    std::vector<std::array<int64_t, 2>> shapes;
    for (Matrix& matrix : arguments) {
      pointers.push_back(matrix.values.data());
      shapes.push_back(matrix.shape);
    }
    const std::vector<double> expected = evaluate(chain, inputs);
    std::vector<float> got(expected.size(), NAN);
    using Call = void (*)(float**, const std::array<int64_t, 2>*, float*);
    const auto call = reinterpret_cast<Call>(dlsym(library, ("call" + std::to_string(k)).c_str()));
    ASSERT_NE(call, nullptr);
    call(pointers.data(), shapes.data(), got.data());
    const double scale = magnitude(expected);
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_LE(std::fabs(static_cast<double>(got[i]) - expected[i]), 3e-5 * scale)
          << list[k].label << " at " << i << "\n"
          << module_text(chain) << cpp_text(chain);
  }
  dlclose(library);
}

}  // namespace
}  // namespace kz::corpus
