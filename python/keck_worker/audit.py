"""The operator ban of the audit child (keck.md, part 7): while it is on, torch may allocate, view and copy, and nothing else, numpy is
out of reach, and a kernel of the candidate's own must run.

What a candidate computes it must compute itself: in its own build or its Triton kernel. Building modules and loading weights is not
audited, only forward. Three nets against torch: a dispatch mode raises where Python or C++ of this thread calls an operator; the shim's
observer (src/headers/shim.h) notes operators of any thread, whatever was caught; and a count that stands still tells that the observer
is gone. What a build links past the dispatcher the daemon sees in the object itself (src/keck/worker/object_check.h).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from typing import Any, Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from keck_worker.calls import BannedOperator

# Whose operators are torch's own. Any other namespace was registered by the candidate.
TORCH = frozenset(
    "aten prims prim quantized _quantized mkldnn mkl onednn mkldnn_prepacked prepacked xnnpack sparse inductor rngprims "
    "_nnapi _caffe2 torch_vision torchvision torch".split()
)
_shim: Any = None
_known: dict[str, bool] = {}
NO_KERNEL = "no_kernel"  # the daemon knows this word
_own_calls = 0


def connect(shim: str) -> None:
    """Once, in the zygote, after torch: loads the shim for all extensions to find."""
    global _shim
    _shim = ctypes.CDLL(shim, mode=ctypes.RTLD_GLOBAL)
    _shim.kz_shim_audit_violation.restype = ctypes.c_char_p
    _shim.kz_shim_audit_count.restype = ctypes.c_ulong


def allows(name: str) -> bool:
    """Whether an operator ("aten::empty_like") is allowed; the list is the shim's."""
    known = _known.get(name)
    if known is None:
        known = _known[name] = name.split("::", 1)[0] not in TORCH or bool(_shim.kz_shim_audit_allows(name.encode()))
    return known


def _counted(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        global _own_calls
        _own_calls += 1
        return function(*args, **kwargs)

    return call


def watch_extension(module: Any) -> None:
    """Counts calls of what a build bound."""
    for name, value in list(vars(module).items()):
        if not name.startswith("__") and callable(value) and not isinstance(value, type):
            setattr(module, name, _counted(value))
        elif isinstance(value, type):
            for key, method in list(vars(value).items()):
                if callable(method) and not key.startswith("__"):
                    setattr(value, key, _counted(method))


def watch_triton() -> None:
    """Counts launches of Triton kernels."""
    if "triton.runtime.interpreter" in sys.modules:
        executor = sys.modules["triton.runtime.interpreter"].GridExecutor
        executor.__call__ = _counted(executor.__call__)


class _Ban(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        global _own_calls
        name = func._schema.name
        self.seen += 1
        if not allows(name):
            raise BannedOperator(name)
        _own_calls += name.split("::", 1)[0] not in TORCH
        return func(*args, **(kwargs or {}))


def _no_numpy(*_args: Any, **_kwargs: Any) -> Any:
    raise BannedOperator("numpy")


@contextlib.contextmanager
def ban() -> Iterator[None]:
    """The context of one audited call."""
    saved = (torch.Tensor.numpy, torch.Tensor.__array__)
    torch.Tensor.numpy = torch.Tensor.__array__ = _no_numpy  # Triton's interpreter goes by addresses
    _shim.kz_shim_audit(1)
    seen_before, own_before = _shim.kz_shim_audit_count(), _own_calls
    mode = _Ban()
    try:
        with mode:
            yield
    except BannedOperator:
        raise
    except BaseException as error:  # what a net threw may come back as any type
        noted = _shim.kz_shim_audit_violation()
        if not noted:
            raise
        raise BannedOperator(noted.decode()) from error
    finally:
        torch.Tensor.numpy, torch.Tensor.__array__ = saved
    noted = _shim.kz_shim_audit_violation()
    if noted:
        raise BannedOperator(noted.decode())
    if mode.seen and _shim.kz_shim_audit_count() == seen_before:
        raise BannedOperator("an operator unseen: the observer was removed")
    if _own_calls == own_before:
        raise BannedOperator(NO_KERNEL)
