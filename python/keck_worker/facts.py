"""Facts about a Proposer's module, for the gate; src/keck/worker/module_gate.h says what each means and decides.

The static ones come first. A module that uses anything that is not known to be harmless is not run: what runs here could otherwise
make up the rest.
"""

from __future__ import annotations

import ast
import copy
import math
import random
import time
from typing import Any

import numpy
import torch
from torch import Tensor

from keck_worker import canon, child, rename, trace

WANTED = ("Model", "get_inputs", "get_init_inputs")
_catalogue: canon.Catalogue | None = None
_table: trace.ApiTable | None = None


def prepare(entries: list[dict[str, Any]]) -> None:
    """Once, in the zygote: the entries of data/apis/catalogue.json."""
    global _catalogue, _table
    _catalogue = canon.Catalogue(entries)
    _table = trace.ApiTable(entries)


def gather(request: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"ok": True, "parsed": False, "ran": None}
    try:
        tree = ast.parse(request["source"])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", 0) or 0
        facts["parse_error"] = {"line": line, "message": getattr(error, "msg", None) or str(error)[:200]}
        return facts
    facts["parsed"] = True
    scan = canon.Scan(tree, _catalogue or canon.Catalogue([]))
    facts["forbidden"] = scan.forbidden[:20]
    facts["apis"] = list(scan.apis)
    top = {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    facts["missing"] = [name for name in WANTED if name not in top]
    if scan.forbidden or facts["missing"]:
        return facts
    facts["canonical_source"], renamed = rename.canonical(copy.deepcopy(tree), scan.aliases)
    facts["canonical_hash"] = canon.source_hash(renamed)
    facts["ran"] = run(facts["canonical_source"], request, request.get("apis") or facts["apis"])
    return facts


def seed_all(seed: int) -> None:
    torch.manual_seed(seed & (2**63 - 1))
    random.seed(seed)
    numpy.random.seed(seed & 0xFFFFFFFF)


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors(v)] if isinstance(value, (list, tuple)) else []


def size(ts: list[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in ts)


def distance(value: Any, other: Any) -> float:
    """Largest difference over all elements, each against its own magnitude plus its tensor's rms. Infinite where structure, shape,
    dtype or non-finite places differ."""
    mine, theirs = tensors(value), tensors(other)
    if len(mine) != len(theirs):
        return math.inf
    worst = 0.0
    for a, b in zip(mine, theirs):
        if a.shape != b.shape:
            return math.inf
        if a.numel() == 0:
            continue
        a, b = a.detach().double(), b.detach().double()
        finite = torch.isfinite(a)
        if not torch.equal(finite, torch.isfinite(b)):
            return math.inf
        a, b = a[finite], b[finite]
        if a.numel() == 0:
            continue
        scale = b.abs() + b.square().mean().sqrt()
        difference = (a - b).abs()
        worst = max(worst, float(torch.where(difference > 0, difference / scale.clamp_min(1e-300), difference).max()))
    return worst


def ulp(value: Any) -> Any:
    """Every floating element one unit in the last place up or down."""

    def nudge(t: Tensor) -> Tensor:
        if not t.is_floating_point():
            return t
        up = torch.rand(t.shape) < 0.5
        return torch.where(up, torch.nextafter(t, torch.full_like(t, math.inf)), torch.nextafter(t, torch.full_like(t, -math.inf)))

    return trace._map(value, nudge)


def widened(value: Any) -> Any:
    return trace._map(value, lambda t: t.double() if t.is_floating_point() else t)


class Runner:
    """One module, executed; every method is one question."""

    def __init__(self, namespace: dict[str, Any], seed: int) -> None:
        self.namespace, self.seed = namespace, seed
        seed_all(seed)
        self.arguments = list(namespace["get_init_inputs"]())
        self.model = self.construct()
        self.inputs = self.draw(seed + 1)
        self.others: list[Any] = []

    def construct(self) -> torch.nn.Module:
        seed_all(self.seed)
        return self.namespace["Model"](*copy.deepcopy(self.arguments))

    def draw(self, seed: int) -> list[Any]:
        seed_all(seed)
        return list(self.namespace["get_inputs"]())

    def call(self, model: Any, inputs: list[Any], seed: int = 7) -> Any:
        inputs = copy.deepcopy(inputs)
        seed_all(self.seed + seed)
        with torch.no_grad():
            return model(*inputs)

    def inputs_report(self) -> dict[str, Any]:
        mine, theirs = tensors(self.inputs), tensors(self.others)
        changed, distinct, smallest = 1.0, 1 << 30, 1 << 30
        for a, b in zip(mine, theirs):
            if a.shape != b.shape or a.numel() == 0:
                return {"tensors": len(mine), "changed": 0.0, "distinct": 0, "count": 0}
            if not a.is_floating_point():  # labels and masks have few values: they must differ at all
                changed = changed if bool((a != b).any()) else 0.0
                continue
            changed = min(changed, float((a != b).double().mean()))
            distinct = min(distinct, int(a.reshape(-1)[:65536].unique().numel()))
            smallest = min(smallest, a.numel())
        return {"tensors": len(mine), "changed": changed, "distinct": distinct, "count": smallest}

    def depends(self, base: Any) -> list[float]:
        """For each input: how far the output moves when that input alone is another draw."""
        moved = []
        for i, value in enumerate(self.inputs):
            if tensors(value):
                mixed = list(self.inputs)
                mixed[i] = self.others[i]
                moved.append(distance(self.call(self.model, mixed), base))
        return moved

    def neutral(self, name: str, base: Any) -> dict[str, Any]:
        """What becomes of the output when the calls of one API return something else, or what they were given."""
        assert _table is not None
        report: dict[str, Any] = {"calls": 0, "noise": 0.0, "identity": None}
        applied: list[bool] = []
        for kind, substitute in (("noise", trace.noise(name)), ("identity", trace.identity(name, applied))):
            try:
                with trace.traced(self.model, _table, substitute) as calls:
                    changed = self.call(self.model, self.inputs)
                moved = distance(changed, base)
            except Exception:  # another value there makes the rest of the module fail: it matters
                moved = math.inf
            report["calls"] = calls.count(name)
            if kind == "noise":
                report["noise"] = moved
            elif applied and all(applied):
                report["identity"] = moved
        return report


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else ("nan" if math.isnan(value) else "inf")


def run(source: str, request: dict[str, Any], apis: list[str]) -> dict[str, Any]:
    """All questions in turn. Over `stop_ms` or `stop_bytes` the rest is not asked: it would take as long again and again."""
    step, seed = "construct", int(request.get("seed", 0))
    try:
        namespace = child.execute(source, "module").__dict__
        runner = Runner(namespace, seed)
        step = "run"
        started = time.perf_counter()
        base = runner.call(runner.model, runner.inputs)
        first = time.perf_counter() - started
        outputs = tensors(base)
        out: dict[str, Any] = {"run_ms": 1e3 * first, "bytes": size(tensors(runner.inputs)) + size(outputs)}
        if out["run_ms"] > 4 * request.get("stop_ms", math.inf) or out["bytes"] > request.get("stop_bytes", math.inf):
            return out
        started = time.perf_counter()
        again = runner.call(runner.model, runner.inputs)
        out["run_ms"] = min(out["run_ms"], 1e3 * (time.perf_counter() - started))
        runner.others = runner.draw(seed + 2)
        out["state_bytes"] = size([*runner.model.parameters(), *runner.model.buffers()])
        out["outputs"] = len(outputs)
        out["finite"] = all(bool(torch.isfinite(t).all()) for t in outputs)
        fresh = runner.construct()
        out["again"] = _number(distance(again, base))
        out["fresh"] = _number(distance(runner.call(fresh, runner.inputs), base))
        out["other_rng"] = _number(distance(runner.call(runner.construct(), runner.inputs, seed=1001), base))
        out["inputs"] = runner.inputs_report()
        out["depends"] = [_number(m) for m in runner.depends(base)]
        out["ulp"] = _number(distance(runner.call(runner.model, ulp(runner.inputs)), base))
        out["wide"] = _number(wide(runner, base))
        with trace.traced(runner.model, _table) as calls:
            runner.call(runner.model, runner.inputs)
        out["operators"] = list(calls)
        reports = {name: runner.neutral(name, base) for name in apis}
        out["neutral"] = {
            name: {**r, "noise": _number(r["noise"]), "identity": None if r["identity"] is None else _number(r["identity"])}
            for name, r in reports.items()
        }
        return out
    except BaseException as error:
        described = child.describe(error, "module")
        return {"error": {"step": step, "message": described["message"], "reason": described["reason"]}}


def wide(runner: Runner, base: Any) -> float:
    """Distance to the same in fp64: what rounding and the order of summation make of it. Negative where fp64 does not run."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return distance(base, runner.call(copy.deepcopy(runner.model).double(), widened(runner.inputs)))
    except Exception:
        return -1.0
    finally:
        torch.set_default_dtype(default)
