"""The operator ban of the audit child (keck.md, part 7): while it is on, torch may allocate, view and copy, and nothing else.

What a candidate computes it must compute itself: in its own build or its Triton kernel. Building modules and loading weights is not
audited, only forward. Three nets: a dispatch mode raises where Python or C++ of this thread calls an operator; the shim's observer
(src/headers/shim.h) notes operators of any thread, whatever was caught; and a count that stands still tells that the observer is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
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


class _Ban(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        self.seen += 1
        if not allows(name):
            raise BannedOperator(name)
        return func(*args, **(kwargs or {}))


def _no_numpy(*_args: Any, **_kwargs: Any) -> Any:
    raise BannedOperator("numpy")


@contextlib.contextmanager
def ban(numpy_too: bool = True) -> Iterator[None]:
    """The context of one audited call. `numpy_too` is off for Triton, whose interpreter computes in numpy."""
    saved = (torch.Tensor.numpy, torch.Tensor.__array__)
    if numpy_too:
        torch.Tensor.numpy = torch.Tensor.__array__ = _no_numpy
    _shim.kz_shim_audit(1)
    before = _shim.kz_shim_audit_count()
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
    if mode.seen and _shim.kz_shim_audit_count() == before:
        raise BannedOperator("an operator unseen: the observer was removed")
