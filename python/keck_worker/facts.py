"""Facts about a Proposer's module, for the gate (src/keck/worker/module_gate.h decides)."""

from __future__ import annotations

from typing import Any


def gather(request: dict[str, Any]) -> dict[str, Any]:
    raise NotImplementedError
