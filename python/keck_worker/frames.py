"""Frames: what every socket of Keck carries (docs/architecture.md, part 2).

Header, little-endian: u32 magic 'KZ01', u16 type, u16 flags, u32 seq, u32 payload bytes; then the payload. Descriptors travel as
SCM_RIGHTS beside the header. Types below 64 belong to the daemon and carry JSON, the others to the judge (calls.py).
"""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any, NamedTuple, Sequence

HEADER = struct.Struct("<IHHII")
MAGIC = int.from_bytes(b"KZ01", "little")
MAX_FDS = 8
MAX_JSON = 32 << 20

# Daemon and zygote (src/keck/worker/zygote.h).
INIT, READY, FORK, FORKED, EXITED = 1, 2, 3, 4, 5
# Daemon and child, before the judge (src/keck/worker/child.h).
UP, LOAD, LOADED = 15, 16, 17
# Daemon and child, on the build socket, as long as the child lives.
BUILD, BUILT = 24, 25


class Frame(NamedTuple):
    type: int
    flags: int
    seq: int
    payload: bytearray
    fds: list[int]

    def json(self) -> Any:
        return json.loads(bytes(self.payload))


class Closed(Exception):
    """The other side closed the socket."""


class Malformed(Exception):
    """Not a frame, or one over its size limit."""


def _fill(sock: socket.socket, view: memoryview) -> None:
    while view:
        n = sock.recv_into(view)
        if n == 0:
            raise Closed
        view = view[n:]


def recv(sock: socket.socket, limit: int = MAX_JSON) -> Frame:
    """One frame; blocks. Descriptors come close-on-exec and belong to the caller."""
    head, fds = bytearray(), []
    while len(head) < HEADER.size:
        part, ancillary, flags, _ = sock.recvmsg(HEADER.size - len(head), socket.CMSG_SPACE(MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds += struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4])
        if not part:
            for fd in fds:
                os.close(fd)
            raise Closed
        head += part
    magic, kind, flags, seq, size = HEADER.unpack(head)
    if magic != MAGIC or size > limit:
        for fd in fds:
            os.close(fd)
        raise Malformed(f"magic {magic:#x}, {size} bytes, limit {limit}")
    payload = bytearray(size)
    _fill(sock, memoryview(payload))
    return Frame(kind, flags, seq, payload, fds)


def send(sock: socket.socket, kind: int, payload: bytes | bytearray | memoryview = b"", seq: int = 0, fds: Sequence[int] = (), flags: int = 0) -> None:
    """One frame; blocks until the kernel has it all."""
    head = HEADER.pack(MAGIC, kind, flags, seq, len(payload))
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    sent = sock.sendmsg([head, payload], ancillary)
    rest = memoryview(head + bytes(payload))[sent:] if sent < HEADER.size else memoryview(payload)[sent - HEADER.size :]
    if rest:
        sock.sendall(rest)


def send_json(sock: socket.socket, kind: int, value: Any, seq: int = 0, fds: Sequence[int] = ()) -> None:
    send(sock, kind, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"), seq, fds)
