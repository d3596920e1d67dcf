"""One disposable child: takes a source over its channel, executes it as a module, then serves calls to whoever holds the other end.

It runs what it is given and reports what happened; what that means is decided by the daemon and the judge. After the source has run,
nothing in this process is to be trusted, and nothing outside it does.
"""

from __future__ import annotations

import importlib.machinery
import linecache
import os
import random
import signal
import socket
import sys
import traceback
import types
from typing import Any

import numpy
import torch

from keck_worker import audit, calls, extension, frames

MESSAGE_BYTES = 400
TRACE_BYTES = 4000
# What a source must define, by role.
REQUIRED = {
    "candidate": ("ModelNew",),
    "audit": ("ModelNew",),
    "reference": ("Model", "get_inputs", "get_init_inputs"),
    "module": ("Model", "get_inputs", "get_init_inputs"),
}


class _Loader(importlib.machinery.SourceFileLoader):
    """Gives inspect and linecache the source that has no file."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_source(self, fullname: str) -> str:
        return self._source

    def get_data(self, path: str) -> bytes:
        return self._source.encode()


def fresh_entropy() -> None:
    """Nothing that seeds a stream is inherited from the zygote."""
    seed = int.from_bytes(os.urandom(8), "little")
    torch.manual_seed(seed & (2**63 - 1))
    random.seed(seed)
    numpy.random.seed(seed & 0xFFFFFFFF)


def execute(source: str, name: str) -> types.ModuleType:
    """The source as a real module: tracebacks, inspect.getsource and Triton see its lines, and `import NAME` finds it."""
    path = f"{name}.py"
    code = compile(source, path, "exec", dont_inherit=True)
    module = types.ModuleType(name)
    module.__file__ = path
    module.__loader__ = _Loader(name, path, source)
    module.__spec__ = importlib.machinery.ModuleSpec(name, module.__loader__, origin=path)
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    sys.modules[name] = module
    exec(code, module.__dict__)
    return module


def forget(name: str) -> None:
    """Undoes execute(), for the zygote's own warm-up."""
    sys.modules.pop(name, None)
    linecache.cache.pop(f"{name}.py", None)


def _where(error: BaseException, path: str) -> str:
    """'line 12: ' of the innermost frame in the source, or nothing."""
    line = 0
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == path:
            line = number
    return f"line {line}: " if line else ""


def describe(error: BaseException, name: str) -> dict[str, str]:
    """What was raised, where in the source, with the end of the traceback."""
    path = f"{name}.py"
    if isinstance(error, SyntaxError):
        stage, reason = "format", "syntax_error"
        message = f"line {error.lineno}: {error.msg}"
    else:
        stage, reason = "load", "exception"
        if isinstance(error, extension.Unsupported):
            stage, reason = "build", "unsupported_build"
        elif isinstance(error, ImportError):
            reason = "import_error"
        elif isinstance(error, SystemExit):
            reason = "exit"
        elif isinstance(error, MemoryError):
            reason = "memory"
        try:
            text = str(error)
        except Exception:  # a hostile __str__ is this source's own business
            text = ""
        message = f"{_where(error, path)}{type(error).__name__}: {text}"
    try:
        inside = error.__traceback__
        while inside is not None and inside.tb_frame.f_code.co_filename != path:
            inside = inside.tb_next  # our own frames say nothing
        trace = "".join(traceback.format_exception(type(error), error, inside, limit=-6))[-TRACE_BYTES:]
    except Exception:
        trace = ""
    message = message.split("\n", 1)[0][:MESSAGE_BYTES]
    return {"stage": stage, "reason": reason, "message": message, "traceback": trace}


def _load(request: dict[str, Any]) -> tuple[types.ModuleType | None, dict[str, Any]]:
    role = request["role"]
    name = "candidate" if role in ("candidate", "audit") else "module"
    try:
        module = execute(request["source"], name)
    except BaseException as error:  # SystemExit and KeyboardInterrupt are the source's doing too
        return None, {"ok": False, **describe(error, name)}
    for wanted in REQUIRED[role]:
        if not callable(getattr(module, wanted, None)):
            reason = "no_model_new" if wanted == "ModelNew" else "no_model" if wanted == "Model" else "no_inputs"
            return None, {"ok": False, "stage": "format", "reason": reason, "message": f"the source defines no {wanted}", "traceback": ""}
    return module, {"ok": True}


def _hide() -> None:
    """What the source imports by our names is a copy of its own: to patch it changes nothing here."""
    for name in [name for name in sys.modules if name.split(".", 1)[0] == __package__]:
        del sys.modules[name]


def main(channel_fd: int, build_fd: int) -> None:
    """Called in the confined child; never returns."""
    status = 0
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.stdout.reconfigure(line_buffering=True)
        sys.stderr.reconfigure(line_buffering=True)
        channel = socket.socket(fileno=channel_fd)
        extension.connect(socket.socket(fileno=build_fd))
        fresh_entropy()
        frames.send(channel, frames.UP)
        request = frames.recv(channel).json()
        role = request["role"]
        if role == "module":
            from keck_worker import facts

            frames.send_json(channel, frames.LOADED, facts.gather(request))
        else:
            if role == "audit":
                extension.on_load = audit.watch_extension
                audit.watch_triton()
            ban = audit.ban
            _hide()
            module, outcome = _load(request)
            frames.send_json(channel, frames.LOADED, outcome)
            if module is not None:
                calls.serve(channel, module.__dict__, role, ban=ban)
    except frames.Closed:
        pass
    except BaseException:
        traceback.print_exc()
        status = 70
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            pass
        os._exit(status)
