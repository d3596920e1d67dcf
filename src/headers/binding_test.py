"""Calls a real extension from real Python: arguments, results, exceptions, references. Run by ctest as

    binding_test.py KECK_BUILD SHIM slim|full

with the same expectations for both, so that the shim's binding is held to what pybind11 and torch do.
"""

import ctypes
import gc
import importlib.util
import math
import subprocess
import sys
import tempfile
import unittest
import weakref
from pathlib import Path

import torch

KECK_BUILD, SHIM, HEADERS = sys.argv[1:4]
SOURCE = Path(__file__).resolve().parent / "corpus" / "bindings.cpp"


def build(source, headers, *options):
    folder = tempfile.mkdtemp(prefix="kz-binding-")
    out = Path(folder) / "kernel.so"
    subprocess.run([KECK_BUILD, "--cache", folder, "--headers", headers, "--out", str(out), *options, str(source)], check=True)
    spec = importlib.util.spec_from_file_location("kernel", out)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


shim = ctypes.CDLL(SHIM, mode=ctypes.RTLD_GLOBAL)
shim.kz_shim_audit_violation.restype = ctypes.c_char_p
shim.kz_shim_audit_count.restype = ctypes.c_ulong
m = build(SOURCE, HEADERS)


class Arguments(unittest.TestCase):
    def test_tensors(self):
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        self.assertTrue(torch.equal(m.add(x, y), x + y))
        self.assertTrue(torch.equal(m.add(y=y, x=x), x + y))
        self.assertTrue(torch.equal(m.add(x.t(), y=y.t()), (x + y).t()))
        for bad in ((x,), (x, 1), (x, None), (x, "y"), (x, [y]), (x, y, y)):
            self.assertRaises(TypeError, m.add, *bad)
        self.assertRaises(TypeError, m.add, x, z=y)
        self.assertRaises(TypeError, m.add, x, y, y=y)
        parameter = torch.nn.Parameter(x)
        self.assertTrue(torch.equal(m.add(parameter, y), x + y))

    def test_integers(self):
        self.assertEqual(m.integer(41), 42)
        self.assertEqual(m.integer(True), 2)
        self.assertEqual(m.integer(torch.tensor(3)), 4)
        self.assertEqual(m.integer(-(2**62)), -(2**62) + 1)
        for bad in (1.0, "1", None, 2**63, [1]):
            self.assertRaises(TypeError, m.integer, bad)
        self.assertEqual(m.small(2**31 - 1), 2**31 - 1)
        self.assertRaises(TypeError, m.small, 2**31)
        self.assertEqual(m.byte(255), 255)
        self.assertRaises(TypeError, m.byte, 256)
        self.assertRaises(TypeError, m.byte, -1)
        self.assertRaises(TypeError, m.integer, v=1)

    def test_floats(self):
        self.assertEqual(m.real(3), 1.5)
        self.assertEqual(m.real(torch.tensor(3.0)), 1.5)
        self.assertTrue(math.isnan(m.real(float("nan"))))
        self.assertEqual(m.real(float("inf")), float("inf"))
        self.assertAlmostEqual(m.single(1.0), 1 / 3, places=6)
        self.assertTrue(math.isnan(m.single(float("nan"))))
        for bad in ("1", None, [1.0]):
            self.assertRaises(TypeError, m.real, bad)

    def test_booleans_and_text(self):
        self.assertIs(m.truth(True), True)
        self.assertIs(m.truth(0), False)
        self.assertIs(m.truth(None), False)
        self.assertRaises(TypeError, m.truth, "x")
        self.assertEqual(m.text("ä"), "ä!")
        self.assertEqual(m.text(b"raw"), "raw!")
        self.assertRaises(TypeError, m.text, 1)

    def test_sequences(self):
        self.assertEqual(m.ints([1, 2, 3]), 3)
        self.assertEqual(m.ints((1,)), 1)
        self.assertEqual(m.ints(torch.Size([2, 3])), 2)
        self.assertEqual(m.shape([1, 2]), 2)
        self.assertEqual(m.shape((1, 2, 3)), 3)
        for bad in ("12", b"12", 5, [1.5], [None], None):
            self.assertRaises(TypeError, m.ints, bad)
        self.assertEqual(m.doubles([1, 2.5]), [1.0, 2.5])
        x = torch.ones(2)
        out = m.tensors([x, x + 1])
        self.assertIsInstance(out, list)
        self.assertEqual(out[0].data_ptr(), x.data_ptr())
        self.assertRaises(TypeError, m.tensors, [x, 1])

    def test_optional_tuple_pair(self):
        x = torch.ones(2)
        self.assertIsNone(m.optional(None))
        self.assertEqual(m.optional(x).data_ptr(), x.data_ptr())
        self.assertRaises(TypeError, m.optional, 1)
        self.assertIsNone(m.optional_int(None))
        self.assertEqual(m.optional_int(7), 7)
        t = m.tuple(x)
        self.assertIsInstance(t, tuple)
        self.assertEqual(t[1:], (1, "t"))
        self.assertEqual(m.pair((1, 2)), (1, 2.0))
        self.assertEqual(m.nested((1, [2, 3])), (1, [2, 3]))
        self.assertRaises(TypeError, m.pair, (1, 2, 3))

    def test_torch_types(self):
        self.assertIs(m.dtype(torch.float16), torch.float16)
        self.assertEqual(m.device(torch.device("cpu")), torch.device("cpu"))
        self.assertRaises(RuntimeError, m.scalar, 2)  # torch 2.11's own binding can't load a Scalar either
        self.assertRaises(TypeError, m.dtype, "float16")

    def test_overloads_and_defaults(self):
        self.assertEqual(m.overloaded(1), 1)
        self.assertEqual(m.overloaded(1.5), 2)
        self.assertEqual(m.overloaded("x"), 3)
        self.assertRaises(TypeError, m.overloaded, None)
        x = torch.ones(3)
        self.assertEqual(m.defaults(x), 6 + 4 + 100)
        self.assertEqual(m.defaults(x, 1, k=1), 3 + 4 + 1)
        self.assertEqual(m.defaults(x, mode="", a=0.0), 100)
        self.assertEqual(m.twice(21), 42)


class Results(unittest.TestCase):
    def test_none_and_undefined(self):
        self.assertIsNone(m.nothing())
        self.assertIsNone(m.undefined())
        self.assertTrue(torch.equal(m.without_gil(torch.ones(2)), torch.ones(2)))

    def test_in_place_returns_the_same_object(self):
        x = torch.zeros(2)
        y = m.in_place(x)
        self.assertIs(y, x)
        self.assertEqual(x.tolist(), [1, 1])

    def test_module(self):
        self.assertEqual(m.__name__, "kernel")
        self.assertEqual(m.__doc__, "bindings under test")


class Exceptions(unittest.TestCase):
    EXPECTED = {
        "check": (RuntimeError, "checked 7"),
        "check_plain": (RuntimeError, "Expected what.empty() to be true"),
        "index": (IndexError, "no such index"),
        "value": (ValueError, "bad value"),
        "type": (TypeError, "bad type"),
        "not_implemented": (NotImplementedError, "later"),
        "runtime": (RuntimeError, "plain"),
        "operator": (RuntimeError, "shape '[7]' is invalid"),
    }

    def test_of_torch(self):
        for what, (kind, text) in self.EXPECTED.items():
            with self.subTest(what), self.assertRaises(kind) as caught:
                m.raise_wrapped(what)
            self.assertIs(type(caught.exception), kind)
            self.assertIn(text, str(caught.exception))

    def test_wrapped_standard_ones_are_runtime_errors(self):
        for what in ("invalid", "range", "bad_alloc"):
            with self.subTest(what), self.assertRaises(RuntimeError) as caught:
                m.raise_wrapped(what)
            self.assertIs(type(caught.exception), RuntimeError)

    def test_bare_ones_are_pybinds(self):
        for what, kind in (("invalid", ValueError), ("range", IndexError), ("bad_alloc", MemoryError),
                           ("runtime", RuntimeError), ("check", RuntimeError), ("operator", RuntimeError)):
            with self.subTest(what), self.assertRaises(kind) as caught:
                m.raise_bare(what)
            self.assertIs(type(caught.exception), kind)

    def test_what_is_no_exception(self):
        self.assertRaises(RuntimeError, m.raise_bare, "int")


class References(unittest.TestCase):
    def test_results_are_freed(self):
        result = m.add(torch.ones(2), torch.ones(2))
        gone = weakref.ref(result)
        del result
        self.assertIsNone(gone())

    def test_nothing_leaks(self):
        x = torch.ones(64)

        def work():
            m.tensors([x, x])
            m.tuple(x)
            m.optional(x)
            m.defaults(x)
            for call in (lambda: m.add(x, 1), lambda: m.tensors([x, 3]), lambda: m.raise_wrapped("check")):
                try:
                    call()
                except (TypeError, RuntimeError):
                    pass

        for _ in range(20):
            work()
        gc.collect()
        objects, references, uses = len(gc.get_objects()), sys.getrefcount(x), x._use_count()
        for _ in range(300):
            work()
        gc.collect()
        self.assertLess(len(gc.get_objects()) - objects, 50)
        self.assertEqual(sys.getrefcount(x), references)
        self.assertEqual(x._use_count(), uses)


class ZAudit(unittest.TestCase):
    """Last, since the audit stays on."""

    def test_forbidden_operators_are_seen(self):
        self.assertEqual(shim.kz_shim_audit_allows(b"aten::empty_like"), 1)
        self.assertEqual(shim.kz_shim_audit_allows(b"aten::copy_"), 1)
        self.assertEqual(shim.kz_shim_audit_allows(b"aten::relu"), 0)
        self.assertEqual(shim.kz_shim_audit_allows(b"aten::add_"), 0)
        shim.kz_shim_audit(1)
        shim.kz_shim_audit(0)  # stays on
        x = torch.ones(2, 3)
        m.without_gil(x.t())
        x.contiguous().view(-1).to(torch.float64).zero_()
        self.assertIsNone(shim.kz_shim_audit_violation())
        self.assertGreater(shim.kz_shim_audit_count(), 0)
        if HEADERS == "slim":
            with self.assertRaisesRegex(RuntimeError, "aten operator add is not allowed in the audit"):
                m.add(x, x)
        else:
            m.add(x, x)
        self.assertEqual(shim.kz_shim_audit_violation(), b"aten::add")
        torch.relu(x)
        self.assertEqual(shim.kz_shim_audit_violation(), b"aten::add")  # the first


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
