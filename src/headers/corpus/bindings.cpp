// What binding_test.py calls: each kind of argument and result, exceptions, overloads, defaults.
#include <torch/extension.h>

#include <string>
#include <tuple>
#include <vector>

namespace {

at::Tensor add(at::Tensor x, const at::Tensor& y) { return x + y; }
int64_t integer(int64_t v) { return v + 1; }
int small(int v) { return v; }
unsigned char byte(unsigned char v) { return v; }
double real(double v) { return v / 2; }
float single(float v) { return v / 3; }
bool truth(bool v) { return v; }
std::string text(const std::string& v) { return v + "!"; }
int64_t ints(std::vector<int64_t> v) { return static_cast<int64_t>(v.size()); }
int64_t shape(at::IntArrayRef v) { return static_cast<int64_t>(v.size()); }
std::vector<double> doubles(const std::vector<double>& v) { return v; }
std::vector<at::Tensor> tensors(std::vector<at::Tensor> v) { return v; }
std::optional<at::Tensor> optional(std::optional<at::Tensor> v) { return v; }
std::optional<int64_t> optional_int(c10::optional<int64_t> v) { return v; }
std::tuple<at::Tensor, int64_t, std::string> tuple(at::Tensor x) { return {x, x.dim(), "t"}; }
std::pair<int, double> pair(std::pair<int, double> v) { return v; }
std::tuple<int, std::vector<int>> nested(std::tuple<int, std::vector<int>> v) { return v; }
at::ScalarType dtype(at::ScalarType v) { return v; }
at::Device device(at::Device v) { return v; }
double scalar(at::Scalar v) { return v.toDouble(); }
at::Tensor undefined() { return at::Tensor(); }
void nothing() {}
at::Tensor& in_place(at::Tensor& x) { return x.add_(1); }
int overloaded_int(int64_t) { return 1; }
int overloaded_float(double) { return 2; }
int overloaded_text(std::string) { return 3; }
double defaults(at::Tensor x, double a, std::string mode, std::optional<int64_t> k) {
  return x.sum().item<double>() * a + static_cast<double>(mode.size()) + static_cast<double>(k.value_or(100));
}

void raise(const std::string& what) {
  if (what == "check") TORCH_CHECK(false, "checked ", 7);
  if (what == "check_plain") TORCH_CHECK(what.empty());
  if (what == "index") TORCH_CHECK_INDEX(false, "no such index");
  if (what == "value") TORCH_CHECK_VALUE(false, "bad value");
  if (what == "type") TORCH_CHECK_TYPE(false, "bad type");
  if (what == "not_implemented") TORCH_CHECK_NOT_IMPLEMENTED(false, "later");
  if (what == "runtime") throw std::runtime_error("plain");
  if (what == "invalid") throw std::invalid_argument("invalid");
  if (what == "range") throw std::out_of_range("range");
  if (what == "bad_alloc") throw std::bad_alloc();
  if (what == "int") throw 5;
  if (what == "operator") at::ones({2, 3}).view({7});
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "bindings under test";
  m.def("add", &add, "adds", py::arg("x"), py::arg("y"));
  m.def("integer", &integer);
  m.def("small", &small);
  m.def("byte", &byte);
  m.def("real", &real);
  m.def("single", &single);
  m.def("truth", &truth);
  m.def("text", &text);
  m.def("ints", &ints);
  m.def("shape", &shape);
  m.def("doubles", &doubles);
  m.def("tensors", &tensors);
  m.def("optional", &optional);
  m.def("optional_int", &optional_int);
  m.def("tuple", &tuple);
  m.def("pair", &pair);
  m.def("nested", &nested);
  m.def("dtype", &dtype);
  m.def("device", &device);
  m.def("scalar", &scalar);
  m.def("undefined", &undefined);
  m.def("nothing", &nothing);
  m.def("in_place", &in_place);
  m.def("overloaded", &overloaded_int);
  m.def("overloaded", &overloaded_float);
  m.def("overloaded", &overloaded_text);
  m.def("defaults", &defaults, py::arg("x"), py::arg("a") = 2.0, py::arg("mode") = "none", py::arg("k") = py::none());
  m.def("twice", [](int64_t v) { return 2 * v; });
  m.def("raise_bare", &raise);
  m.def("raise_wrapped", torch::wrap_pybind_function(raise));
  m.def("without_gil", [](at::Tensor x) {
    py::gil_scoped_release release;
    return x.clone();
  });
}
