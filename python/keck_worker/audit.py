"""The operator ban of the audit child (keck.md, part 7): while it is on, torch may allocate, view and copy, and nothing else.

What a candidate computes it must compute itself: in its own build or its Triton kernel. Building modules and loading weights is not
audited, only forward.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from keck_worker.calls import BannedOperator

# Operators by base name, overloads alike. None of them combines or changes values, casts of dtype apart.
ALLOCATE = """empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like new_ones
    full full_like new_full scalar_tensor arange zero_ fill_ resize_ set_ lift lift_fresh lift_fresh_copy pin_memory _pin_memory is_pinned"""
VIEW = """view _unsafe_view view_as reshape _reshape_alias reshape_as expand expand_as permute transpose t squeeze unsqueeze select slice narrow
    as_strided unfold diagonal split split_with_sizes chunk unbind alias detach flatten unflatten movedim real imag view_as_real
    view_as_complex transpose_ t_ squeeze_ unsqueeze_ as_strided_ detach_ numpy_T mT mH swapaxes ravel unsafe_split unsafe_chunk
    unsafe_split_with_sizes tensor_split hsplit vsplit dsplit _conj conj _neg_view"""
COPY = """clone copy_ copy contiguous to _to_copy _copy_from _copy_from_and_resize type_as cpu cuda item _local_scalar_dense
    resolve_conj resolve_neg data_ptr"""
QUERY = """size stride storage_offset numel dim is_contiguous is_same_size is_floating_point is_complex is_nonzero requires_grad_
    sym_size sym_stride sym_numel sym_storage_offset record_stream _version set_data output_nr is_leaf retain_grad"""
ALLOWED = frozenset(f"aten::{name}" for group in (ALLOCATE, VIEW, COPY, QUERY) for name in group.split())
# Whose operators are torch's own. Any other namespace was registered by the candidate.
TORCH = frozenset(
    "aten prims prim quantized _quantized mkldnn mkl onednn mkldnn_prepacked prepacked xnnpack sparse inductor rngprims "
    "_nnapi _caffe2 torch_vision torchvision torch".split()
)


class _Ban(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        if name not in ALLOWED and name.split("::", 1)[0] in TORCH:
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
    try:
        with _Ban():
            yield
    finally:
        torch.Tensor.numpy, torch.Tensor.__array__ = saved
