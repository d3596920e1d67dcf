// Every way of building an extension works or has a named outcome (keck.md, part 2).
#include <gmock/gmock.h>

#include "keck/worker/evaluator_fixture.h"

namespace kz::keck {
namespace {

const std::string kRelu = module_of("x = torch.relu(x)");

const std::string kHead = R"(import os
import torch
from torch.utils import cpp_extension
from torch.utils.cpp_extension import load, load_inline
body = r"""
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  for (int64_t i = 0; i < x.numel(); i++) { float v = x.data_ptr<float>()[i]; y.data_ptr<float>()[i] = v > 0 ? v : 0; }
  return y;
}
"""
source = "#include <torch/extension.h>\n" + body
bound = source + 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }\n'
)";

std::string model(const std::string& forward, const std::string& init = "        pass\n") {
  return "class ModelNew(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n" + init +
         "    def forward(self, x):\n" + forward;
}
std::string module_level(const std::string& build) {
  return kHead + build + "\n" + model("        return ext.run(x)\n");
}

struct Case {
  const char* name;
  std::string candidate, expected;
};

class Styles : public EvaluatorTest {
 protected:
  static void check(const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      const Verdict verdict = judge(kRelu, c.candidate, "cpp", false, 60);
      EXPECT_EQ(summary(verdict), c.expected) << c.name << ": " << verdict.message << "\n"
                                              << verdict.build.log << verdict.log_tail;
    }
  }
};

TEST_F(Styles, OfCalling) {
  check({
      {"keywords", module_level("ext = load_inline(name='k', cpp_sources=source, functions=['run'])"), "pass accepted"},
      {"positional", module_level("ext = load_inline('k', [source], None, None, ['run'])"), "pass accepted"},
      {"a list", module_level("ext = load_inline('k', ['#include <torch/extension.h>', body], functions='run')"),
       "pass accepted"},
      {"a dict", module_level("ext = load_inline('k', source, functions={'run': 'the kernel'})"), "pass accepted"},
      {"no include of its own", module_level("ext = load_inline('k', body, functions=['run'])"), "pass accepted"},
      {"flags and the rest",
       module_level("ext = load_inline(name='k', cpp_sources=source, functions=['run'], extra_cflags=['-O3', "
                    "'-ffast-math'], verbose=True, "
                    "with_cuda=False, build_directory=None, extra_ldflags=[])"),
       "pass accepted"},
      {"the module's attribute", module_level("ext = cpp_extension.load_inline('k', source, functions=['run'])"),
       "pass accepted"},
      {"its own binding", module_level("ext = load_inline('k', bound)"), "pass accepted"},
      {"load of a file",
       module_level("os.makedirs('src', exist_ok=True)\nopen('src/k.cpp', 'w').write(bound)\next = load(name='k', "
                    "sources=['src/k.cpp'])"),
       "pass accepted"},
  });
}

TEST_F(Styles, OfPlace) {
  const std::string build = "load_inline('k', source, functions=['run'])";
  check({
      {"in a constructor", kHead + model("        return self.ext.run(x)\n", "        self.ext = " + build + "\n"),
       "pass accepted"},
      {"in a function",
       kHead + "def make():\n    return " + build + "\next = make()\n" + model("        return ext.run(x)\n"),
       "pass accepted"},
      {"in forward",
       kHead + model("        if not hasattr(self, 'ext'):\n            self.ext = " + build +
                     "\n        return self.ext.run(x)\n"),
       "pass accepted"},
      {"two extensions",
       kHead + "a = " + build + "\nb = load_inline('other', source.replace('run', 'run2'), functions=['run2'])\n" +
           model("        return b.run2(a.run(x))\n"),
       "pass accepted"},
      {"one name, other sources",
       kHead + "a = load_inline('k', source.replace('run', 'run2'), functions=['run2'])\nb = " + build + "\n" +
           model("        return b.run(a.run2(x))\n"),
       "pass accepted"},
  });
}

TEST_F(Styles, ThatAreNotOffered) {
  check({
      {"no Python module", module_level("ext = load_inline('k', source, functions=['run'], is_python_module=False)"),
       "fail build unsupported_build"},
      {"a standalone program", module_level("ext = load('k', ['k.cpp'], is_standalone=True)"),
       "fail build unsupported_build"},
      {"an include path",
       module_level("ext = load_inline('k', source, functions=['run'], extra_include_paths=['/tmp'])"),
       "fail build unsupported_build"},
      {"CUDAExtension", module_level("ext = cpp_extension.CUDAExtension('k', ['k.cu'])"),
       "fail build unsupported_build"},
      {"BuildExtension", module_level("ext = cpp_extension.BuildExtension()"), "fail build unsupported_build"},
  });
}

TEST_F(Styles, FaultsOfBuilding) {
  const Case cases[] = {
      {"a missing function", module_level("ext = load_inline('k', source, functions=['walk'])"),
       "fail build compile_error"},
      {"nothing bound", module_level("ext = load_inline('k', source)"), "fail load import_error"},
      {"a missing file", module_level("ext = load('k', ['nowhere.cpp'])"), "fail load exception"},
      {"a call of what is not there",
       kHead + "ext = load_inline('k', source, functions=['run'])\n" + model("        return ext.walk(x)\n"),
       "fail run exception"},
      {"a forbidden flag",
       module_level("ext = load_inline('k', source, functions=['run'], extra_cflags=['-fplugin=/tmp/x.so'])"),
       "fail build forbidden_flag"},
      {"too many", module_level("for i in range(9):\n    ext = load_inline(f'k{i}', source, functions=['run'])"),
       "fail build too_many_builds"},
      {"a fault in a constructor",
       kHead + model("        return x\n",
                     "        self.ext = load_inline('k', source + 'int x = nowhere;', functions=['run'])\n"),
       "fail build compile_error"},
  };
  check({std::begin(cases), std::end(cases)});
}

// What a candidate falls back to when its build fails is torch: no kernel.
TEST_F(Styles, AFallbackIsNoKernel) {
  const std::string candidate =
      kHead +
      "try:\n    ext = load_inline('k', 'int x = nowhere;', functions=['run'])\nexcept Exception:\n    ext = None\n" +
      model("        return torch.relu(x)\n");
  EXPECT_EQ(summary(judge(kRelu, candidate)), "pass refused policy torch_compute");
}

}  // namespace
}  // namespace kz::keck
