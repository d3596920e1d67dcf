"""Which catalogued APIs a forward pass calls, in order, and what becomes of the output when calls of one are replaced."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Modules that only arrange others.
ARRANGING = frozenset("torch.nn.Sequential torch.nn.ModuleList torch.nn.Identity torch.nn.Parameter".split())
_DUNDERS = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add", "__sub__": "sub", "__rsub__": "sub", "__isub__": "sub",
    "__mul__": "mul", "__rmul__": "mul", "__imul__": "mul", "__truediv__": "div", "__rtruediv__": "div", "__itruediv__": "div",
    "__div__": "div", "__rdiv__": "div", "__idiv__": "div", "__matmul__": "matmul", "__rmatmul__": "matmul", "__pow__": "pow",
    "__rpow__": "pow", "__neg__": "neg", "__abs__": "abs", "__floordiv__": "floor_divide", "__rfloordiv__": "floor_divide",
    "__mod__": "remainder", "__gt__": "gt", "__lt__": "lt", "__ge__": "ge", "__le__": "le", "__eq__": "eq", "__ne__": "ne",
}  # fmt: skip
Substitute = Callable[[str, Any, tuple[Any, ...]], Any]


def _lookup(spelling: str) -> Any:
    value: Any = torch
    for part in spelling.split(".")[1:]:
        value = getattr(value, part, None)
        if value is None:
            return None
    return value


class ApiTable:
    """Function objects and module classes to canonical names."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.functions: dict[Any, str] = {}
        self.modules: dict[type, str] = {}
        for entry in entries:
            for spelling in [entry["name"], *entry["aliases"]]:
                value = _lookup(spelling)
                if isinstance(value, type) and issubclass(value, torch.nn.Module):
                    # Where a functional exists it is what a module's forward calls; else the module itself is the call.
                    if entry["kind"] == "module" and entry["name"] not in ARRANGING:
                        self.modules.setdefault(value, entry["name"])
                elif callable(value) and not isinstance(value, type):
                    self.functions.setdefault(value, entry["name"])
        for dunder, name in _DUNDERS.items():
            method, canonical = getattr(Tensor, dunder, None), self.functions.get(getattr(torch, name, None))
            if method is not None and canonical is not None:
                self.functions.setdefault(method, canonical)


class _Mode(TorchFunctionMode):
    def __init__(self, table: ApiTable, substitute: Substitute | None) -> None:
        super().__init__()
        self.table, self.substitute = table, substitute
        self.calls: list[str] = []
        self.inside = 0  # modules that count as one call

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = self.table.functions.get(func)
        return result if name is None or self.inside else self.seen(name, result, args)

    def seen(self, name: str, result: Any, args: tuple[Any, ...]) -> Any:
        self.calls.append(name)
        if self.substitute is None:
            return result
        self.inside += 1  # what the substitute itself calls is not the module's
        try:
            return self.substitute(name, result, args)
        finally:
            self.inside -= 1


@contextlib.contextmanager
def traced(model: torch.nn.Module, table: ApiTable, substitute: Substitute | None = None) -> Iterator[list[str]]:
    """The calls of what runs inside, filled as they happen."""
    mode = _Mode(table, substitute)
    hooks = []

    def enter(_module: Any, _args: Any) -> None:
        mode.inside += 1

    def leave(name: str) -> Any:
        def hook(_module: Any, args: Any, result: Any) -> Any:
            mode.inside -= 1
            return result if mode.inside else mode.seen(name, result, args)

        return hook

    for module in model.modules():
        name = table.modules.get(type(module))
        if name is not None:
            hooks += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave(name))]
    try:
        with mode:
            yield mode.calls
    finally:
        for hook in hooks:
            hook.remove()


def _map(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        parts = [_map(v, change) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def noise(name: str) -> Substitute:
    """Other values of the same shape and kind in place of what `name` returns."""

    def other(t: Tensor) -> Tensor:
        if t.is_floating_point() or t.is_complex():
            return t + (0.5 + t.abs()) * torch.randn_like(t)
        return ~t if t.dtype == torch.bool else t.reshape(-1).flip(0).reshape(t.shape).contiguous()

    return lambda called, result, args: _map(result, other) if called == name else result


def identity(name: str, applied: list[bool]) -> Substitute:
    """The first argument in place of what `name` returns, where it fits; `applied` tells for each call."""

    def substitute(called: str, result: Any, args: tuple[Any, ...]) -> Any:
        if called != name:
            return result
        first = args[0] if args else None
        fits = isinstance(first, Tensor) and isinstance(result, Tensor) and first.shape == result.shape and first.dtype == result.dtype
        applied.append(fits)
        return first.clone() if fits else result

    return substitute
