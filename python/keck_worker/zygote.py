"""The zygote: one process with torch and Triton imported and one thread, from which every child is forked (keck.md, part 2).

It has done once what each child would do again, and holds no source, token or journal. On its control socket (descriptor 3) the daemon
asks for forks; it answers with the pid and a pidfd, and reports every exit with the CPU time that was used.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from typing import Any

# Before any import of torch: a thread pool would not survive a fork.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"):
    os.environ[_name] = "1"
# Where a driver is, torch's cpp_extension initialises CUDA at import, and CUDA starts a thread. This zygote serves the CPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"

CONTROL_FD = 3
HUGE_PAGE = 2 << 20
MADV_COLLAPSE = 25


def tasks() -> int:
    return len(os.listdir("/proc/self/task"))


def rss_mb() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def collapse_heap() -> None:
    """Huge pages under the heap: a fork copies one entry where it copied 512, and an exit drops one (15 ms became 4)."""
    libc = ctypes.CDLL(None)
    with open("/proc/self/maps") as file:
        lines = file.read().splitlines()
    for line in lines:
        part = line.split()
        if part[1] != "rw-p" or (len(part) > 5 and part[5] != "[heap]"):
            continue
        start, end = (int(x, 16) for x in part[0].split("-"))
        start = -(-start // HUGE_PAGE) * HUGE_PAGE
        for address in range(start, end // HUGE_PAGE * HUGE_PAGE, HUGE_PAGE):
            libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(HUGE_PAGE), MADV_COLLAPSE)  # best effort: old kernels say no


def warm_up() -> None:
    """First uses that every child would pay for: parsers, operators, parameters, casts, linecache."""
    import ast
    import inspect
    import linecache  # noqa: F401
    import random  # noqa: F401

    import numpy
    import torch
    import torch.nn.functional as F

    from keck_worker import audit, calls

    ast.parse("x = 1")
    inspect.getsource(warm_up)
    numpy.random.seed(0)
    torch.manual_seed(0)
    with torch.no_grad():
        x = torch.randn(4, 4)
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
        y = module(F.relu(x)).double().float().softmax(-1)
        y.sum().item()
        with audit._Ban():  # a dispatch mode imports much at its first use; the shim's observer would stay on for good
            try:
                torch.relu(x.contiguous().view(16).clone())
            except calls.BannedOperator:
                pass
        torch.frombuffer(bytearray(64), dtype=torch.float32).view(4, 4).contiguous().clone()


def warm_up_triton() -> None:
    """The interpreter's first kernel imports and compiles a good second of Python."""
    import torch

    from keck_worker import child

    module = child.execute(TRITON_SOURCE, "keck_warm_up")
    with torch.no_grad():
        module.run()
    child.forget("keck_warm_up")


TRITON_SOURCE = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    v = tl.where(v > 0, tl.exp(v) * 0.5, v - 1.0)
    total = tl.sum(v, axis=0) / n + tl.max(v, axis=0)
    for _ in range(2):
        total += tl.sqrt(tl.abs(total))
    square = tl.dot(tl.reshape(v, (16, 16)), tl.reshape(v, (16, 16)))
    v += tl.sum(square) * 0 + total + tl.minimum(tl.log(tl.abs(v) + 1.0), 1.0)
    tl.store(y + at, v.to(tl.float32), mask=at < n)


def run():
    x = torch.ones(200)
    y = torch.empty_like(x)
    kernel[(triton.cdiv(200, 256),)](x, y, 200, BLOCK=256)
"""


class Zygote:
    def __init__(self) -> None:
        self.control = socket.socket(fileno=CONTROL_FD)
        self.children: dict[int, int] = {}  # pid -> the daemon's id
        self.sandbox: Any = None
        self.wake_read, self.wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def prepare(self) -> None:
        from keck_worker import frames

        request = frames.recv(self.control).json()
        started = time.monotonic()
        if request["interpret"]:
            os.environ["TRITON_INTERPRET"] = "1"  # before Triton's import: a zygote serves one mode
        import numpy
        import torch

        torch.set_num_threads(1)
        versions = {"python": sys.version.split()[0], "torch": torch.__version__, "numpy": numpy.__version__}
        try:
            import triton
            import triton.language  # noqa: F401

            versions["triton"] = triton.__version__
        except ImportError:
            versions["triton"] = ""
        from keck_worker import audit, calls, child, extension, facts  # noqa: F401

        extension.patch()
        facts.prepare(request.get("catalogue", []))
        audit.connect(request["shim"])
        warm_up()
        if versions["triton"] and request["interpret"]:
            warm_up_triton()
        self.sandbox = ctypes.CDLL(request["sandbox"])
        status = self.sandbox.kz_zygote_init()
        if status != 0:
            raise OSError(-status, f"kz_zygote_init: {os.strerror(-status)}")
        if tasks() != 1:
            raise RuntimeError(f"{tasks()} threads after the imports: a fork would be unsafe")
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        gc.collect()
        collapse_heap()
        gc.freeze()
        gc.disable()  # the zygote makes no garbage; a child turns it on again
        ready = {"versions": versions, "rss_mb": rss_mb(), "import_seconds": time.monotonic() - started}
        frames.send_json(self.control, frames.READY, ready)

    def fork(self, frame: Any) -> None:
        from keck_worker import frames

        request = frame.json()
        spec = request["spec"].encode()
        channel, build, log = frame.fds
        pid, error = 0, ""
        if tasks() != 1:
            error = "the zygote has more than one thread"
        else:
            status = self.sandbox.kz_before_fork(spec)
            if status != 0:
                error = f"kz_before_fork: {os.strerror(-status)}"
            else:
                try:
                    pid = os.fork()
                except OSError as failed:
                    error, pid = f"fork: {failed.strerror}", -1
                if pid == 0:
                    self.become_child(spec, channel, build, log)
                self.sandbox.kz_after_fork()
        for fd in frame.fds:
            os.close(fd)
        if error:
            frames.send_json(self.control, frames.FORKED, {"id": request["id"], "pid": 0, "error": error})
            return
        self.children[pid] = request["id"]
        pidfd = os.pidfd_open(pid)
        frames.send_json(self.control, frames.FORKED, {"id": request["id"], "pid": pid}, fds=[pidfd])
        os.close(pidfd)

    def become_child(self, spec: bytes, channel: int, build: int, log: int) -> None:
        """In the child: lock in, then hand over. Never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(log, 1)
            os.dup2(log, 2)
            keep = (ctypes.c_int * 4)(1, 2, channel, build)
            message = ctypes.create_string_buffer(256)
            if self.sandbox.kz_confine(spec, keep, 4, message, ctypes.c_size_t(256)) != 0:
                os.write(2, b"keck: not confined: " + message.value + b"\n")
                os._exit(71)
            gc.enable()
            from keck_worker import child

            child.main(channel, build)
        except BaseException:
            traceback.print_exc()
        os._exit(70)

    def reap(self) -> None:
        from keck_worker import frames

        while self.children:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            known = self.children.pop(pid, None)
            if known is None:
                continue
            report = {"id": known, "status": status, "cpu_seconds": usage.ru_utime + usage.ru_stime, "max_rss_kb": usage.ru_maxrss}
            frames.send_json(self.control, frames.EXITED, report)

    def serve(self) -> None:
        from keck_worker import frames

        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wake_read, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self.wake_read:
                    try:
                        while os.read(self.wake_read, 512):
                            pass
                    except BlockingIOError:
                        pass
                    self.reap()
                    continue
                frame = frames.recv(self.control)
                if frame.type != frames.FORK or len(frame.fds) != 3:
                    raise frames.Malformed(f"type {frame.type}")
                self.fork(frame)


def main() -> None:
    from keck_worker import frames

    zygote = Zygote()
    try:
        zygote.prepare()
        zygote.serve()
    except (frames.Closed, ConnectionError, KeyboardInterrupt):
        pass  # the daemon is gone
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        for pid in zygote.children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    os._exit(0)


if __name__ == "__main__":
    sys.modules["keck_worker.zygote"] = sys.modules["__main__"]
    main()
