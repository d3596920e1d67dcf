"""load_inline and load as calls to the build broker (keck.md, part 2): the child sends bytes, never paths, and gets a sealed memfd.

The functions of torch.utils.cpp_extension are replaced in the zygote, once; `connect` gives a child its build socket. Every way of
building has a named outcome: what the broker cannot do raises Unsupported, whose text the verdict shows.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import socket
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch.utils.cpp_extension as cpp_extension

from keck_worker import frames

_CPP = (".cpp", ".cc", ".cxx", ".c++", ".c")
_CUDA = (".cu",)
_broker: socket.socket | None = None
on_load: Callable[[types.ModuleType], None] | None = None  # told of every extension, in the audit
_objects: list[int] = []  # descriptors stay open: dlopen compares paths, so a number must not come back with other content


class Unsupported(RuntimeError):
    """A way of building that Keck does not offer."""


def connect(sock: socket.socket) -> None:
    global _broker
    _broker = sock


def _texts(value: Any, what: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        return list(value)
    raise TypeError(f"{what} must be a string or a list of strings, not {type(value).__name__}")


def _flags(value: Any, what: str) -> list[str]:
    if isinstance(value, str):  # torch would join its characters: a common slip, meant as one flag or several
        return value.split()
    return _texts(value, what)


def _functions(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [str(name) for name in value]
    return _texts(value, "functions")


def _build(request: dict[str, Any]) -> types.ModuleType:
    if _broker is None:
        raise Unsupported("no compiler here: extensions are built where a candidate is loaded or run")
    frames.send_json(_broker, frames.BUILD, request)
    reply = frames.recv(_broker)
    result = reply.json()
    if not result.get("ok") or not reply.fds:
        raise RuntimeError(f"Error building extension '{request['name']}': {result.get('reason', '')}\n{result.get('log', '')}")
    fd = reply.fds[0]
    _objects.append(fd)
    path, name = f"/proc/self/fd/{fd}", result["module_name"]
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    if on_load is not None:
        on_load(module)
    sys.modules.setdefault(request["name"], module)  # as torch leaves it: a later `import NAME` finds it
    return module


def _refuse_common(is_python_module: Any, extra_sycl: Any, with_sycl: Any, include_paths: Any, standalone: Any = False) -> None:
    if not is_python_module:
        raise Unsupported("is_python_module=False is not supported: bind the functions as a Python module")
    if standalone:
        raise Unsupported("is_standalone=True is not supported: bind the functions as a Python module")
    if extra_sycl or with_sycl:
        raise Unsupported("SYCL is not supported")
    if include_paths:
        raise Unsupported("extra_include_paths is not supported: sources travel as text, put the header's text in the source")


def load_inline(
    name,
    cpp_sources,
    cuda_sources=None,
    sycl_sources=None,
    functions=None,
    extra_cflags=None,
    extra_cuda_cflags=None,
    extra_sycl_cflags=None,
    extra_ldflags=None,
    extra_include_paths=None,
    build_directory=None,
    verbose=False,
    with_cuda=None,
    with_sycl=None,
    is_python_module=True,
    with_pytorch_error_handling=True,
    keep_intermediates=True,
    use_pch=False,
    no_implicit_headers=False,
):
    _refuse_common(is_python_module, sycl_sources or extra_sycl_cflags, with_sycl, extra_include_paths)
    cuda = _texts(cuda_sources, "cuda_sources")
    return _build(
        {
            "name": str(name),
            "backend": "cuda" if cuda or with_cuda else "cpp",
            "cpp_sources": _texts(cpp_sources, "cpp_sources"),
            "cuda_sources": cuda,
            "functions": _functions(functions),
            "cflags": _flags(extra_cflags, "extra_cflags"),
            "cuda_cflags": _flags(extra_cuda_cflags, "extra_cuda_cflags"),
            "ldflags": _flags(extra_ldflags, "extra_ldflags"),
            "implicit_headers": not no_implicit_headers,
        }
    )


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def load(
    name,
    sources,
    extra_cflags=None,
    extra_cuda_cflags=None,
    extra_sycl_cflags=None,
    extra_ldflags=None,
    extra_include_paths=None,
    build_directory=None,
    verbose=False,
    with_cuda=None,
    with_sycl=None,
    is_python_module=True,
    is_standalone=False,
    keep_intermediates=True,
):
    _refuse_common(is_python_module, extra_sycl_cflags, with_sycl, extra_include_paths, is_standalone)
    cpp: list[str] = []
    cuda: list[str] = []
    paths = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    for path in map(os.fspath, paths):
        ending = os.path.splitext(path)[1].lower()
        if ending not in _CPP + _CUDA:
            raise Unsupported(f"load: a source that ends in '{ending}' is not supported")
        (cuda if ending in _CUDA else cpp).append(_read(path))
    return _build(
        {
            "name": str(name),
            "backend": "cuda" if cuda or with_cuda else "cpp",
            "cpp_sources": cpp,
            "cuda_sources": cuda,
            "functions": [],
            "cflags": _flags(extra_cflags, "extra_cflags"),
            "cuda_cflags": _flags(extra_cuda_cflags, "extra_cuda_cflags"),
            "ldflags": _flags(extra_ldflags, "extra_ldflags"),
            "implicit_headers": False,
        }
    )


def _unsupported(what: str):
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise Unsupported(f"{what} is not supported: use torch.utils.cpp_extension.load_inline or load")

    return refuse


def patch(names: Sequence[str] = ("CUDAExtension", "CppExtension", "SyclExtension", "BuildExtension", "_jit_compile")) -> None:
    """Once, in the zygote: every later `from torch.utils.cpp_extension import …` gets these."""
    cpp_extension.load_inline = load_inline
    cpp_extension.load = load
    for name in names:
        setattr(cpp_extension, name, _unsupported(name))
