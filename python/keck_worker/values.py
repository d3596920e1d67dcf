"""Values on the wire: None, bool, int, float, str, list, tuple, dict, dtype, device and tensors as a fixed binary struct.

src/keck/judge/protocol.h (Value, TensorRef) is the other side. Never pickle.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

PAGE = 4096  # a poisoned page in front of every tensor that is handed over, and one behind it

DTYPES: tuple[torch.dtype, ...] = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)
_CODE_OF = {dtype: code for code, dtype in enumerate(DTYPES)}
_DEVICES = ("cpu", "cuda")

NONE, BOOL, INT, FLOAT, STR, LIST, TUPLE, DICT, DTYPE, DEVICE, TENSOR = range(11)
_MAX_DEPTH = 32

_U32 = struct.Struct("<I")
_INT = struct.Struct("<Bq")
_FLOAT = struct.Struct("<Bd")
_COUNT = struct.Struct("<BI")
_DEVICE = struct.Struct("<Bh")
_HEAD = struct.Struct("<BBhBB")  # dtype, device type, device index, flags, dimensions
_TAIL = struct.Struct("<QQQ")  # address, storage bytes below it, storage bytes from it on


class UnsupportedValue(Exception):
    """A value that the protocol does not carry."""


def carried(t: Tensor) -> bool:
    """Whether the protocol has a struct for it."""
    plain = type(t) is Tensor or type(t) is Parameter
    return plain and t.dtype in _CODE_OF and t.layout is torch.strided and not t.is_neg()


def pack_tensor(t: Tensor) -> bytes:
    """Describe a tensor where it lies; the reader fetches its bytes from this process's memory."""
    if type(t) is not Tensor and type(t) is not Parameter:
        raise UnsupportedValue(f"a tensor subclass {type(t).__name__}")
    code = _CODE_OF.get(t.dtype)
    if code is None or t.layout is not torch.strided or t.is_neg():
        raise UnsupportedValue(f"a tensor of {t.dtype}, {t.layout}")
    where = t.device
    kind = _DEVICES.index(where.type) if where.type in _DEVICES else 2
    flags = (type(t) is Parameter) | (2 if t.requires_grad else 0)
    shape = t.shape
    n = len(shape)
    storage = t.untyped_storage()
    below = t.storage_offset() * t.itemsize
    return (
        _HEAD.pack(code, kind, -1 if where.index is None else where.index, flags, n)
        + struct.pack(f"<{2 * n}q", *shape, *t.stride())
        + _TAIL.pack(t.data_ptr(), below, storage.nbytes() - below)
    )


def pack_value(value: Any, out: list[bytes], tensors: list[Tensor], depth: int = 0) -> None:
    """Append the value's struct to `out`, and the tensors in it to `tensors` in order."""
    if isinstance(value, Tensor):
        out.append(b"\x0a")
        out.append(pack_tensor(value))
        tensors.append(value)
    elif value is None:
        out.append(b"\x00")
    elif value is True or value is False:
        out.append(b"\x01\x01" if value else b"\x01\x00")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise UnsupportedValue("an integer beyond 64 bits")
        out.append(_INT.pack(INT, value))
    elif isinstance(value, float):
        out.append(_FLOAT.pack(FLOAT, value))
    elif isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
        out.append(_COUNT.pack(STR, len(text)) + text)
    elif isinstance(value, (list, tuple, dict)):
        if depth >= _MAX_DEPTH:
            raise UnsupportedValue("a value nested too deeply")
        kind = LIST if isinstance(value, list) else TUPLE if isinstance(value, tuple) else DICT
        out.append(_COUNT.pack(kind, len(value)))
        if isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, (str, int, float, bool, type(None))):
                    raise UnsupportedValue(f"a dict key of type {type(key).__name__}")
                pack_value(key, out, tensors, depth + 1)
                pack_value(item, out, tensors, depth + 1)
        else:
            for item in value:
                pack_value(item, out, tensors, depth + 1)
    elif isinstance(value, torch.dtype) and value in _CODE_OF:
        out.append(bytes((DTYPE, _CODE_OF[value])))
    elif isinstance(value, torch.device):
        kind = _DEVICES.index(value.type) if value.type in _DEVICES else 2
        out.append(b"\x09" + _DEVICE.pack(kind, -1 if value.index is None else value.index))
    else:
        raise UnsupportedValue(f"a value of type {type(value).__name__}")


Maker = Callable[[int], Any]  # from the memfd of a call to the value


def _constant(value: Any) -> Maker:
    return lambda _fd: value


class Reader:
    """Reads structs that the judge sent. Tensors become makers: their memory comes with each call."""

    def __init__(self, payload: bytes, at: int = 0) -> None:
        self.payload = payload
        self.at = at

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        values = form.unpack_from(self.payload, self.at)
        self.at += form.size
        return values

    def text(self) -> str:
        (n,) = self.take(_U32)
        self.at += n
        return self.payload[self.at - n : self.at].decode("utf-8", "surrogatepass")

    def byte(self) -> int:
        self.at += 1
        return self.payload[self.at - 1]

    def tensor(self) -> Maker:
        code, _kind, _index, _flags, n = self.take(_HEAD)
        numbers = self.take(struct.Struct(f"<{2 * n}q"))
        address, _below, size = self.take(_TAIL)
        shape, strides, dtype = numbers[:n], numbers[n:], DTYPES[code]
        if size == 0:
            return lambda _fd: torch.empty(shape, dtype=dtype)
        count = size // dtype.itemsize
        plain = count if n != 1 else -1
        length = PAGE + -(-size // PAGE) * PAGE + PAGE
        start = address - PAGE
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        protection = mmap.PROT_READ | mmap.PROT_WRITE

        def make(fd: int) -> Tensor:
            # The mapping lives as long as the tensor: a module may keep its input.
            memory = mmap.mmap(fd, length, flags, protection, offset=start)
            flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=PAGE)
            return flat if plain == -1 else flat.as_strided(shape, strides)

        return make

    def value(self) -> Maker:
        kind = self.byte()
        if kind == TENSOR:
            return self.tensor()
        if kind == NONE:
            return _constant(None)
        if kind == BOOL:
            return _constant(self.byte() != 0)
        if kind == INT:
            return _constant(self.take(struct.Struct("<q"))[0])
        if kind == FLOAT:
            return _constant(self.take(struct.Struct("<d"))[0])
        if kind == STR:
            return _constant(self.text())
        if kind == DTYPE:
            return _constant(DTYPES[self.byte()])
        if kind == DEVICE:
            where, index = self.take(_DEVICE)
            return _constant(torch.device(_DEVICES[where]) if index < 0 else torch.device(_DEVICES[where], index))
        (n,) = self.take(_U32)
        if kind == DICT:
            pairs = [(self.value(), self.value()) for _ in range(n)]
            return lambda fd: {key(fd): item(fd) for key, item in pairs}
        items = [self.value() for _ in range(n)]
        if kind == LIST:
            return lambda fd: [item(fd) for item in items]
        return lambda fd: tuple([item(fd) for item in items])
