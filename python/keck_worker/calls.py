"""The child's side of the value protocol: constructs modules, calls them, describes what they return.

src/keck/judge/protocol.h is the other side and says what the frames mean. Decides nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal

Role = Literal["reference", "candidate", "audit"]


class BannedOperator(Exception):
    """Raised inside forward by the operator ban; its argument is the operator's name ("aten::mm")."""


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
    raise NotImplementedError
