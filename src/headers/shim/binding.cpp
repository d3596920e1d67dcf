// Modules and calls of slim extensions: what pybind11 does for ordinary ones, once, in the shim.
#include <Python.h>
#include <torch/csrc/Exceptions.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "../slim/kz/abi.h"
#include "shim.h"

namespace {

struct Overload {
  KzThunk thunk;
  void* function;
  int parameters;
  std::vector<KzParameter> named;  // of the last parameters, as pybind has it: all or none are named
  bool wrapped;
};

struct Function {
  std::string name, doc;
  std::vector<Overload> overloads;
  PyMethodDef method{};
};

struct Module {
  PyObject* object;
  std::vector<std::unique_ptr<Function>> functions;
};

char next_overload_mark;
constexpr const char* kCapsule = "kz.function";
constexpr int kInlineArguments = 16;

// pybind11's translation of what a bare function throws.
void translate_as_pybind() {
  try {
    throw;
  } catch (const std::bad_alloc& e) {
    PyErr_SetString(PyExc_MemoryError, e.what());
  } catch (const std::domain_error& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const std::invalid_argument& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const std::length_error& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const std::out_of_range& e) {
    PyErr_SetString(PyExc_IndexError, e.what());
  } catch (const std::range_error& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const std::overflow_error& e) {
    PyErr_SetString(PyExc_OverflowError, e.what());
  } catch (...) {
    std::rethrow_exception(std::current_exception());
  }
}

void translate(bool wrapped) {
  try {
    try {
      throw;
    } catch (python_error& e) {
      e.restore();
    } catch (py::error_already_set& e) {
      e.restore();
    } catch (py::builtin_exception& e) {
      e.set_error();
    } catch (const c10::Error&) {
      torch::translate_exception_to_python(std::current_exception());
    } catch (const std::exception&) {
      if (wrapped) {
        torch::translate_exception_to_python(std::current_exception());
      } else {
        translate_as_pybind();
      }
    }
  } catch (const std::exception& e) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    // pybind11's words for an exception that is no std::exception.
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "Caught an unknown exception!");
  }
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "Caught an unknown exception!");
}

// Puts positional, keyword and default arguments in place; false when they don't fit this overload.
bool place(const Overload& overload, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords,
           void** values) {
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  if (positional + named > overload.parameters) return false;
  for (int i = 0; i < overload.parameters; ++i) values[i] = i < positional ? arguments[i] : nullptr;
  const int first_named = overload.parameters - static_cast<int>(overload.named.size());
  for (Py_ssize_t k = 0; k < named; ++k) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, k);
    int found = -1;
    for (size_t j = 0; j < overload.named.size() && found < 0; ++j) {
      const char* name = overload.named[j].name;
      if (name != nullptr && PyUnicode_CompareWithASCIIString(keyword, name) == 0)
        found = first_named + static_cast<int>(j);
    }
    if (found < 0 || values[found] != nullptr) return false;
    values[found] = arguments[positional + k];
  }
  for (int i = 0; i < overload.parameters; ++i) {
    if (values[i] != nullptr) continue;
    if (i < first_named) return false;
    values[i] = overload.named[static_cast<size_t>(i - first_named)].value;
    if (values[i] == nullptr) return false;
  }
  return true;
}

PyObject* refuse(const Function& function, PyObject* const* arguments, Py_ssize_t count) {
  std::string text = function.name + "(): incompatible function arguments. Invoked with types: ";
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += Py_TYPE(arguments[i])->tp_name;
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
  return nullptr;
}

PyObject* call(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  const auto* function = static_cast<Function*>(PyCapsule_GetPointer(self, kCapsule));
  if (function == nullptr) return nullptr;
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  const bool several = function->overloads.size() > 1;
  for (int convert = several ? 0 : 1; convert <= 1; ++convert) {
    for (const Overload& overload : function->overloads) {
      void* few[kInlineArguments];
      std::vector<void*> many;
      void** values = few;
      if (overload.parameters > kInlineArguments) {
        many.resize(static_cast<size_t>(overload.parameters));
        values = many.data();
      }
      if (!place(overload, arguments, count, keywords, values)) continue;
      try {
        void* result = overload.thunk(overload.function, values, convert);
        if (result == &next_overload_mark) continue;
        if (result != nullptr) {
          auto* object = static_cast<PyObject*>(result);
          if (__builtin_expect(kz::shim::audit_on.load(std::memory_order_relaxed), 0)) {
            try {
              kz::shim::audit_call();
            } catch (...) {
              Py_DECREF(object);
              throw;
            }
          }
          return object;
        }
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a result could not be converted");
        return nullptr;
      } catch (...) {
        translate(overload.wrapped);
        return nullptr;
      }
    }
  }
  return refuse(*function, arguments, count + named);
}

}  // namespace

extern "C" {

void* kz_next_overload(void) { return &next_overload_mark; }

void* kz_module_begin(const char* name) {
  // A definition per module, for ever: a module that is in sys.modules points to it.
  auto* definition =
      new PyModuleDef{PyModuleDef_HEAD_INIT, ::strdup(name), nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  PyObject* object = PyModule_Create(definition);
  return object == nullptr ? nullptr : new Module{object, {}};
}

void kz_module_doc(void* module, const char* doc) { PyModule_SetDocString(static_cast<Module*>(module)->object, doc); }

void kz_module_function(void* module, const char* name, const char* doc, KzThunk thunk, void* function, int parameters,
                        const KzParameter* named, int wrapped) {
  auto& functions = static_cast<Module*>(module)->functions;
  Function* target = nullptr;
  for (const auto& f : functions)
    if (f->name == name) target = f.get();
  if (target == nullptr) {
    functions.push_back(std::make_unique<Function>());
    target = functions.back().get();
    target->name = name;
    if (doc != nullptr) target->doc = doc;
  }
  Overload overload{thunk, function, parameters, {}, wrapped != 0};
  for (int i = 0; named != nullptr && named[i].name != nullptr; ++i) overload.named.push_back(named[i]);
  // pybind11 refuses at compile time to name some parameters only; here it is an error of the import.
  if (!overload.named.empty() && overload.named.size() != static_cast<size_t>(parameters))
    throw std::runtime_error("def(\"" + std::string(name) + "\"): the number of py::arg differs from the parameters'");
  target->overloads.push_back(std::move(overload));
}

void* kz_module_end(void* module, void (*fill)(void*)) {
  if (module == nullptr) return nullptr;
  std::unique_ptr<Module> owner(static_cast<Module*>(module));
  try {
    fill(module);
  } catch (...) {
    translate(false);
    if (PyErr_ExceptionMatches(PyExc_RuntimeError)) {
      // pybind11 reports whatever a module body throws as ImportError.
      PyObject *type, *value, *trace;
      PyErr_Fetch(&type, &value, &trace);
      PyErr_SetObject(PyExc_ImportError, value);
      Py_XDECREF(type);
      Py_XDECREF(value);
      Py_XDECREF(trace);
    }
    Py_DECREF(owner->object);
    return nullptr;
  }
  for (auto& f : owner->functions) {
    Function* function = f.release();  // the capsule's, for ever
    function->method = {function->name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call)),
                        METH_FASTCALL | METH_KEYWORDS, function->doc.c_str()};
    PyObject* capsule = PyCapsule_New(function, kCapsule, nullptr);
    PyObject* object = capsule == nullptr ? nullptr : PyCFunction_New(&function->method, capsule);
    Py_XDECREF(capsule);
    if (object == nullptr || PyModule_AddObject(owner->object, function->name.c_str(), object) < 0) {
      Py_XDECREF(object);
      Py_DECREF(owner->object);
      return nullptr;
    }
  }
  return owner->object;
}

void* kz_gil_release(void) { return PyEval_SaveThread(); }
void kz_gil_restore(void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); }
void* kz_gil_ensure(void) { return reinterpret_cast<void*>(static_cast<intptr_t>(PyGILState_Ensure())); }
void kz_gil_end(void* state) { PyGILState_Release(static_cast<PyGILState_STATE>(reinterpret_cast<intptr_t>(state))); }
}
