"""The child's side of the value protocol: constructs modules, calls them, describes what they return.

src/keck/judge/protocol.h is the other side and says what the frames mean. Decides nothing.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import random
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal

import torch
from torch import Tensor

from keck_worker.values import Maker, Reader, UnsupportedValue, carried, pack_tensor, pack_value

Role = Literal["reference", "candidate", "audit"]

_HEADER = struct.Struct("<IHHII")
_MAGIC = 0x31305A4B
_VERSION = 1
_CHUNK = 1 << 16
_FD_SPACE = socket.CMSG_SPACE(8 * 4)

HELLO, INIT_INPUTS, CONSTRUCT, LOAD, INPUTS, CALL, RELEASE = range(64, 71)
HELLO_REPLY, VALUE, STATE, DONE, RAISED = range(96, 101)
DOUBLE, BAN, NULL, COPY = 1, 2, 4, 8
EXCEPTION, UNSUPPORTED, BANNED, MISSING = range(4)
_TEXT_LIMIT = 4000
_PR_SET_PTRACER = 0x59616D61


class BannedOperator(Exception):
    """Raised inside forward by the operator ban; its argument is the operator's name ("aten::mm")."""

    first: str | None = None  # of the audited call: a candidate that swallows the exception has used torch all the same

    def __init__(self, operator: str) -> None:
        super().__init__(operator)
        if BannedOperator.first is None:
            BannedOperator.first = operator


class MissingName(Exception):
    """The source does not define a name that its role needs."""


def serve(
    sock: socket.socket,
    namespace: Mapping[str, Any],
    role: Role,
    ban: Callable[[], AbstractContextManager[Any]] | None = None,
    device: str = "cpu",
) -> None:
    """Answer the judge's requests on `sock` until it is closed.

    `namespace` is the loaded source's globals; `ban` makes the context under which an audited call runs. Blocks; returns
    when the other end is closed, raises nothing for what the module does.
    """
    _Server(sock, namespace, role, ban, device).run()


def _seed_everything(seed: int) -> None:
    """Put every stream where a 64-bit seed says: torch's own CPU generator keeps only the low half of it."""
    if torch.cuda.is_initialized():
        torch.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
    else:  # the same without 15 ms spent on devices that are not there
        torch.default_generator.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
    torch.rand((seed >> 32) % 4093)
    random.seed(seed)
    numpy_random = sys.modules.get("numpy.random")  # importing it here would cost 14 ms
    if numpy_random is not None:
        numpy_random.seed([seed & 0xFFFFFFFF, seed >> 32])


def _widened(value: Any) -> Any:
    """The value with every floating tensor in it as float64."""
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(map(_widened, value))
    if isinstance(value, dict):
        return {key: _widened(item) for key, item in value.items()}
    return value


class _Server:
    def __init__(
        self,
        sock: socket.socket,
        namespace: Mapping[str, Any],
        role: Role,
        ban: Callable[[], AbstractContextManager[Any]] | None,
        device: str,
    ) -> None:
        self.sock = sock
        self.namespace = namespace
        self.role = role
        self.ban = ban
        self.device = device
        self.model: Any = None
        self.double: Any = None
        self.result: Any = None  # of the last call and of the one before: the judge looks at them again
        self.previous: Any = None
        self.aside: Any = None  # of a call that is no run of the module as it is
        self.nonce = ctypes.create_string_buffer(8)
        self.plans: dict[bytes, Maker] = {}
        handlers: dict[int, Callable[[bytes, int, list[int]], tuple[int, list[bytes]]]] = {
            HELLO: self.hello,
            CONSTRUCT: self.construct,
            LOAD: self.load,
            CALL: self.call,
            RELEASE: self.release,
        }
        if role == "reference":
            handlers |= {INIT_INPUTS: self.init_inputs, INPUTS: self.inputs}
        self.handlers = handlers

    def run(self) -> None:
        # Where Yama guards ptrace, the judge is no ancestor of ours: let it read. Elsewhere this call does nothing.
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
        # A collection inside one call would be timed with it; hello() collects, and never walks what was here before: that
        # would copy every page that is shared with the zygote.
        gc.freeze()
        gc.disable()
        sock = self.sock
        sock.setblocking(True)
        while True:
            data, ancillary, _, _ = sock.recvmsg(_CHUNK, _FD_SPACE, socket.MSG_CMSG_CLOEXEC)
            if not data:
                return
            fds: list[int] = []
            for _, _, packed in ancillary:
                fds += struct.unpack(f"<{len(packed) // 4}i", packed)
            while len(data) < _HEADER.size:
                data += self.more(_HEADER.size - len(data))
            _, kind, flags, seq, size = _HEADER.unpack_from(data)
            while len(data) < _HEADER.size + size:
                data += self.more(_HEADER.size + size - len(data))
            try:
                answer, parts = self.handlers[kind](data[_HEADER.size :], flags, fds)
            except BaseException as error:
                answer, parts = RAISED, [self.describe(error)]
            finally:
                for fd in fds:
                    os.close(fd)
            payload = b"".join(parts)
            message = _HEADER.pack(_MAGIC, answer, 0, seq, len(payload)) + payload
            sock.sendall(message)

    def more(self, limit: int) -> bytes:
        part = self.sock.recv(limit)
        if not part:
            raise SystemExit(0)
        return part

    @staticmethod
    def describe(error: BaseException) -> bytes:
        kind = EXCEPTION
        if isinstance(error, UnsupportedValue):
            kind = UNSUPPORTED
        elif isinstance(error, BannedOperator):
            kind = BANNED
        elif isinstance(error, MissingName):
            kind = MISSING
        try:
            message = str(error)
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-8))
        except BaseException:  # an exception whose own __str__ raises
            message, trace = "", ""
        out = [bytes((kind,))]
        for text in (type(error).__name__, message[:_TEXT_LIMIT], trace[-_TEXT_LIMIT:]):
            encoded = text.encode("utf-8", "replace")
            out.append(struct.pack("<I", len(encoded)) + encoded)
        return b"".join(out)

    def named(self, name: str) -> Any:
        if name not in self.namespace:
            raise MissingName(name)
        return self.namespace[name]

    def under_device(self, function: Callable[..., Any], *args: Any) -> Any:
        if self.device == "cpu":
            return function(*args)
        with torch.device(self.device):
            return function(*args)

    def answer_value(self, value: Any, flags: int, fds: list[int]) -> tuple[int, list[bytes]]:
        out: list[bytes] = []
        tensors: list[Tensor] = []
        pack_value(value, out, tensors)
        if flags & COPY:
            self.copy_out(tensors, fds[-1])
        self.aside = value
        return VALUE, out

    @staticmethod
    def copy_out(tensors: list[Tensor], fd: int) -> None:
        """Write the tensors' elements, row-major and one behind the other, where the judge can read them."""
        for t in tensors:
            flat = t.detach().cpu().contiguous()
            view = memoryview((ctypes.c_char * (flat.numel() * flat.itemsize)).from_address(flat.data_ptr() or 1))
            while view:
                view = view[os.write(fd, view) :]

    # Each handler takes payload, flags and descriptors, and returns the answer's type and parts.

    def hello(self, payload: bytes, flags: int, fds: list[int]) -> tuple[int, list[bytes]]:
        _, nonce = struct.unpack_from("<I8s", payload)
        self.model = self.double = self.result = self.previous = self.aside = None
        self.plans.clear()
        gc.collect()
        self.nonce.raw = nonce
        return HELLO_REPLY, [struct.pack("<IQ", _VERSION, ctypes.addressof(self.nonce))]

    def init_inputs(self, payload: bytes, flags: int, fds: list[int]) -> tuple[int, list[bytes]]:
        return self.made(payload, flags, fds, "get_init_inputs")

    def inputs(self, payload: bytes, flags: int, fds: list[int]) -> tuple[int, list[bytes]]:
        return self.made(payload, flags, fds, "get_inputs")

    def made(self, payload: bytes, flags: int, fds: list[int], name: str) -> tuple[int, list[bytes]]:
        function = self.named(name)
        _seed_everything(struct.unpack_from("<Q", payload)[0])
        values = self.under_device(function)
        if not isinstance(values, (list, tuple)):
            raise UnsupportedValue(f"{name} returned {type(values).__name__}, not a list")
        return self.answer_value(list(values), flags, fds)

    def construct(self, payload: bytes, flags: int, fds: list[int]) -> tuple[int, list[bytes]]:
        make = self.named("Model" if self.role == "reference" else "ModelNew")
        reader = Reader(payload, at=8)
        arguments = reader.value()(fds[0] if fds else -1)
        self.model = self.double = self.result = self.previous = self.aside = None
        _seed_everything(struct.unpack_from("<Q", payload)[0])
        self.model = self.under_device(make, *arguments)
        state = self.state()
        if flags & COPY:
            self.copy_out([t for _, _, t in state], fds[-1])
        out = [struct.pack("<I", len(state))]
        for name, is_buffer, t in state:
            encoded = name.encode()
            out.append(struct.pack("<I", len(encoded)) + encoded + bytes((is_buffer,)) + pack_tensor(t))
        return STATE, out

    def state(self) -> list[tuple[str, bool, Tensor]]:
        """Parameters and buffers that can be carried; what cannot (complex, lazy) keeps what the seed gave it."""
        if not isinstance(self.model, torch.nn.Module):
            return []
        named = [(name, False, p) for name, p in self.model.named_parameters()]
        named += [(name, True, b) for name, b in self.model.named_buffers()]
        return [(name, is_buffer, t) for name, is_buffer, t in named if carried(t)]

    def load(self, payload: bytes, flags: int, fds: list[int]) -> tuple[int, list[bytes]]:
        targets = {name: t for name, _, t in self.state()}
        reader = Reader(payload)
        (count,) = reader.take(struct.Struct("<I"))
        with torch.no_grad():
            for _ in range(count):
                name = reader.text()
                reader.byte()
                targets[name].copy_(reader.tensor()(fds[0]))
        self.double = None
        return DONE, []

    def call(self, payload: bytes, flags: int, fds: list[int]) -> tuple[int, list[bytes]]:
        make = self.plans.get(payload)
        if make is None:
            make = self.plans[payload] = Reader(payload).value()
        arguments = make(fds[0] if fds else -1)
        if flags & ~COPY:
            return self.special_call(arguments, flags, fds)
        with torch.no_grad():
            value = self.model(*arguments)
        self.previous, self.result = self.result, value
        return self.answer_value(value, flags, fds)

    def special_call(self, arguments: list[Any], flags: int, fds: list[int]) -> tuple[int, list[bytes]]:
        if flags & NULL:
            return self.answer_value(self.result, flags, fds)
        if flags & BAN:
            if self.ban is None:
                raise RuntimeError("no operator ban in this child")
            BannedOperator.first = None
            with torch.no_grad(), self.ban():
                value = self.model(*arguments)
            if BannedOperator.first is not None:
                raise BannedOperator(BannedOperator.first)
            return self.answer_value(value, flags, fds)
        if self.double is None:
            self.double = copy.deepcopy(self.model).double()
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad():
                return self.answer_value(self.double(*_widened(arguments)), flags, fds)
        finally:
            torch.set_default_dtype(default)

    def release(self, payload: bytes, flags: int, fds: list[int]) -> tuple[int, list[bytes]]:
        self.result = self.previous = self.aside = None
        return DONE, []
