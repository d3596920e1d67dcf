// Arguments and results of bound functions, as pybind11 and torch's casters convert them.
#include <Python.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "../slim/kz/abi.h"

namespace {

PyObject* object(void* o) { return static_cast<PyObject*>(o); }

// The integer that pybind11 would read: no float; anything with __index__ or, when converting, __int__. New reference.
PyObject* integer(void* o, int convert) {
  if (PyFloat_Check(object(o))) return nullptr;
  if (PyLong_Check(object(o))) return Py_NewRef(object(o));
  if (!convert && !PyIndex_Check(object(o))) return nullptr;
  PyObject* index = PyNumber_Index(object(o));
  if (index != nullptr) return index;
  PyErr_Clear();
  if (!convert || !PyNumber_Check(object(o))) return nullptr;
  PyObject* number = PyNumber_Long(object(o));
  if (number == nullptr) PyErr_Clear();
  return number;
}

// False, with the error cleared, after a conversion that failed.
bool converted() {
  if (!PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

}  // namespace

extern "C" {

int kz_load_tensor(void* o, void* tensor) {
  if (!THPVariable_Check(object(o))) return 0;
  *static_cast<at::Tensor*>(tensor) = THPVariable_Unpack(object(o));
  return 1;
}

int kz_load_int(void* o, int convert, int64_t* value) {
  PyObject* number = integer(o, convert);
  if (number == nullptr) return 0;
  *value = PyLong_AsLongLong(number);
  Py_DECREF(number);
  return *value != -1 || converted();
}

int kz_load_uint(void* o, int convert, uint64_t* value) {
  PyObject* number = integer(o, convert);
  if (number == nullptr) return 0;
  *value = PyLong_AsUnsignedLongLong(number);
  Py_DECREF(number);
  return *value != ~uint64_t{0} || converted();
}

int kz_load_double(void* o, int convert, double* value) {
  if (!convert && !PyFloat_Check(object(o))) return 0;
  *value = PyFloat_AsDouble(object(o));
  if (*value != -1.0 || !PyErr_Occurred()) return 1;
  PyErr_Clear();
  if (!convert || !PyNumber_Check(object(o))) return 0;
  PyObject* number = PyNumber_Float(object(o));
  if (number == nullptr) PyErr_Clear();
  const int ok = number != nullptr && kz_load_double(number, 0, value);
  Py_XDECREF(number);
  return ok;
}

int kz_load_bool(void* o, int convert, bool* value) {
  if (object(o) == Py_True || object(o) == Py_False) {
    *value = object(o) == Py_True;
    return 1;
  }
  const char* type = Py_TYPE(object(o))->tp_name;
  if (!convert && std::strcmp(type, "numpy.bool") != 0 && std::strcmp(type, "numpy.bool_") != 0) return 0;
  if (object(o) == Py_None) {
    *value = false;
    return 1;
  }
  const PyNumberMethods* methods = Py_TYPE(object(o))->tp_as_number;
  if (methods == nullptr || methods->nb_bool == nullptr) return 0;
  const int truth = methods->nb_bool(object(o));
  if (truth < 0) PyErr_Clear();
  *value = truth == 1;
  return truth >= 0;
}

int kz_load_text(void* o, const char** text, size_t* size) {
  Py_ssize_t length = 0;
  if (PyUnicode_Check(object(o))) {
    *text = PyUnicode_AsUTF8AndSize(object(o), &length);
    if (*text == nullptr) PyErr_Clear();
  } else if (PyBytes_Check(object(o))) {
    *text = PyBytes_AsString(object(o));
    length = PyBytes_Size(object(o));
  } else if (PyByteArray_Check(object(o))) {
    *text = PyByteArray_AsString(object(o));
    length = PyByteArray_Size(object(o));
  } else {
    return 0;
  }
  *size = static_cast<size_t>(length);
  return *text != nullptr;
}

int kz_load_scalar(void* o, void* scalar) {
  py::detail::make_caster<c10::Scalar> caster;
  if (!caster.load(object(o), true)) return 0;
  *static_cast<c10::Scalar*>(scalar) = py::detail::cast_op<c10::Scalar>(caster);
  return 1;
}

int kz_load_dtype(void* o, int8_t* type) {
  if (!THPDtype_Check(object(o))) return 0;
  *type = static_cast<int8_t>(reinterpret_cast<THPDtype*>(o)->scalar_type);
  return 1;
}

int kz_load_device(void* o, int8_t* device) {
  static_assert(sizeof(at::Device) == 2);
  if (!THPDevice_Check(object(o))) return 0;
  std::memcpy(device, &reinterpret_cast<THPDevice*>(o)->device, sizeof(at::Device));
  return 1;
}

int kz_load_layout(void* o, int8_t* layout) {
  if (!THPLayout_Check(object(o))) return 0;
  *layout = static_cast<int8_t>(reinterpret_cast<THPLayout*>(o)->layout);
  return 1;
}

int kz_load_memory_format(void* o, int8_t* format) {
  if (!THPMemoryFormat_Check(object(o))) return 0;
  *format = static_cast<int8_t>(reinterpret_cast<THPMemoryFormat*>(o)->memory_format);
  return 1;
}

int kz_is_none(void* o) { return object(o) == Py_None; }

int64_t kz_sequence_size(void* o) {
  if (!PySequence_Check(object(o)) || PyUnicode_Check(object(o)) || PyBytes_Check(object(o))) return -1;
  const Py_ssize_t size = PySequence_Size(object(o));
  if (size < 0) PyErr_Clear();
  return size;
}

void* kz_sequence_item(void* o, int64_t index) {
  PyObject* item = PySequence_GetItem(object(o), static_cast<Py_ssize_t>(index));
  if (item == nullptr) PyErr_Clear();
  return item;
}

int64_t kz_tuple_or_list_size(void* o) {
  if (PyTuple_Check(object(o))) return PyTuple_GET_SIZE(object(o));
  return PyList_Check(object(o)) ? PyList_GET_SIZE(object(o)) : -1;
}

void kz_release(void* o) { Py_DECREF(object(o)); }

void* kz_none(void) { return Py_NewRef(Py_None); }
void* kz_from_tensor(void* tensor) { return THPVariable_Wrap(std::move(*static_cast<at::Tensor*>(tensor))); }
void* kz_from_int(int64_t value) { return PyLong_FromLongLong(value); }
void* kz_from_uint(uint64_t value) { return PyLong_FromUnsignedLongLong(value); }
void* kz_from_double(double value) { return PyFloat_FromDouble(value); }
void* kz_from_bool(bool value) { return PyBool_FromLong(value); }
void* kz_from_text(const char* text, size_t size) {
  return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(size), nullptr);
}
void* kz_from_scalar(const void* scalar) { return py::cast(*static_cast<const c10::Scalar*>(scalar)).release().ptr(); }
void* kz_from_dtype(int8_t type) { return Py_NewRef(torch::getTHPDtype(static_cast<at::ScalarType>(type))); }
void* kz_from_device(const int8_t* device) { return THPDevice_New(*reinterpret_cast<const at::Device*>(device)); }
void* kz_new_list(size_t size) { return PyList_New(static_cast<Py_ssize_t>(size)); }
void* kz_new_tuple(size_t size) { return PyTuple_New(static_cast<Py_ssize_t>(size)); }

void* kz_put(void* container, size_t index, void* item) {
  if (item == nullptr) {
    Py_DECREF(object(container));
    return nullptr;
  }
  if (PyTuple_Check(object(container))) {
    PyTuple_SET_ITEM(object(container), static_cast<Py_ssize_t>(index), object(item));
  } else {
    PyList_SET_ITEM(object(container), static_cast<Py_ssize_t>(index), object(item));
  }
  return container;
}
}
