"""The canonical text of a module: no comments, docstrings or annotations, and names that say nothing (threats.md, M5).

forward(self, x, a, b, …), self.m1, self.m2, … in the order of their assignment, t1, t2, … for other locals. Modules of our own corpus
are written like this, so that they are their own canonical text.
"""

from __future__ import annotations

import ast
import itertools
from typing import Iterator

from keck_worker.canon import BUILTINS, IMPORTS, METHODS

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
SHORT = {"torch": "torch", "torch.nn": "nn", "torch.nn.functional": "F", "math": "math"}
ENTRY = ("get_inputs", "get_init_inputs")
KEPT_ATTRIBUTES = METHODS | {"training", "parameters", "weight", "bias"}


def _parameters() -> Iterator[str]:
    yield "x"
    for letter in "abcdefgh":
        yield letter
    for i in itertools.count(1):
        yield f"a{i}"


def _numbered(prefix: str) -> Iterator[str]:
    for i in itertools.count(1):
        yield f"{prefix}{i}"


class _Names(dict[str, str]):
    """Old to new, in order of first need."""

    def __init__(self, fresh: Iterator[str]) -> None:
        super().__init__()
        self.fresh = fresh

    def need(self, old: str) -> str:
        if old not in self:
            self[old] = next(self.fresh)
        return self[old]


def _strip(body: list[ast.stmt]) -> list[ast.stmt]:
    kept = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return kept or [ast.Pass()]


class _Body(ast.NodeTransformer):
    """Renames inside one function."""

    def __init__(self, owner: "Renamer", local: dict[str, str], attributes: _Names) -> None:
        self.owner, self.local, self.attributes = owner, local, attributes

    def visit_Name(self, node: ast.Name) -> ast.AST:
        full = self.owner.aliases.get(node.id)
        if node.id in self.local:
            node.id = self.local[node.id]
        elif full is not None:
            return ast.copy_location(self.owner.spell(full), node)
        elif node.id in self.owner.globals:
            node.id = self.owner.globals[node.id]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr not in KEPT_ATTRIBUTES and not node.attr.startswith("__"):
            node.attr = self.owner.methods.get(node.attr) or self.attributes.need(node.attr)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        named = isinstance(node.func, ast.Attribute) and node.func.attr in ("register_buffer", "register_parameter")
        if named and node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            node.args[0].value = self.attributes.need(node.args[0].value)
        # Keywords of our own functions would keep the old names of parameters: make them agree.
        if isinstance(node.func, ast.Name) and node.func.id in self.owner.globals.values():
            for keyword in node.keywords:
                if keyword.arg is not None:
                    keyword.arg = self.owner.keywords.get(keyword.arg, keyword.arg)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant):
            return None
        return self.generic_visit(node)


class Renamer:
    def __init__(self, tree: ast.Module, aliases: dict[str, str]) -> None:
        self.tree, self.aliases = tree, aliases
        self.globals: dict[str, str] = {}
        self.methods: dict[str, str] = {}
        self.keywords: dict[str, str] = {}
        self.math = False

    def spell(self, full: str) -> ast.expr:
        for known in sorted(SHORT, key=len, reverse=True):
            if full == known or full.startswith(known + "."):
                self.math = self.math or known == "math"
                node: ast.expr = ast.Name(SHORT[known], ast.Load())
                for part in full[len(known) + 1 :].split(".") if full != known else []:
                    node = ast.Attribute(node, part, ast.Load())
                return node
        return ast.Name(full, ast.Load())

    def run(self) -> ast.Module:
        classes, functions, constants = _numbered("Block"), _numbered("f"), _numbered("C")
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) and node.name != "Model":
                self.globals[node.name] = next(classes)
            elif isinstance(node, ast.FunctionDef) and node.name not in ENTRY:
                self.globals[node.name] = next(functions)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for name in ast.walk(target):
                        if isinstance(name, ast.Name):
                            self.globals[name.id] = next(constants)
        body: list[ast.stmt] = []
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                body.append(self.class_(node))
            elif isinstance(node, ast.FunctionDef):
                body.append(self.function(node, self.globals.get(node.name, node.name), _Names(_numbered("m"))))
            elif not isinstance(node, (ast.Import, ast.ImportFrom)):
                kept = _Body(self, {}, _Names(_numbered("m"))).visit(node)
                if kept is not None:
                    body.append(kept)
        head = HEAD + ("import math\n" if self.math else "")
        return ast.fix_missing_locations(ast.Module(body=ast.parse(head).body + body, type_ignores=[]))

    def class_(self, node: ast.ClassDef) -> ast.ClassDef:
        attributes = _Names(_numbered("m"))
        steps = _numbered("step")
        own = [f for f in node.body if isinstance(f, ast.FunctionDef)]
        self.methods = {f.name: f.name if f.name in ("__init__", "forward") else next(steps) for f in own}
        # The constructor first: attributes are numbered in the order in which it makes them.
        made = {f.name: self.function(f, self.methods[f.name], attributes) for f in sorted(own, key=lambda f: f.name != "__init__")}
        body: list[ast.stmt] = [made[f.name] for f in own] or [ast.Pass()]
        self.methods = {}
        name = self.globals.get(node.name, node.name)
        return ast.ClassDef(name=name, bases=[self.spell("torch.nn.Module")], keywords=[], body=body, decorator_list=[], type_params=[])

    def function(self, node: ast.FunctionDef, name: str, attributes: _Names) -> ast.FunctionDef:
        local: dict[str, str] = {}
        fresh = _numbered("n") if node.name == "__init__" else _parameters()
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *([arguments.vararg] if arguments.vararg else []), *arguments.kwonlyargs]
        for argument in every + ([arguments.kwarg] if arguments.kwarg else []):
            argument.annotation = None
            local[argument.arg] = "self" if argument.arg == "self" else next(fresh)
            self.keywords.setdefault(argument.arg, local[argument.arg])
            argument.arg = local[argument.arg]
        temporaries = _numbered("t")
        for part in ast.walk(ast.Module(body=node.body, type_ignores=[])):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id not in local and part.id not in BUILTINS:
                local[part.id] = next(temporaries)
        rename = _Body(self, local, attributes)
        body = [b for b in (rename.visit(s) for s in _strip(node.body)) if b is not None]
        arguments.defaults = [rename.visit(d) for d in arguments.defaults]
        arguments.kw_defaults = [d and rename.visit(d) for d in arguments.kw_defaults]
        return ast.FunctionDef(name=name, args=arguments, body=body or [ast.Pass()], decorator_list=[], returns=None, type_comment=None, type_params=[])


def canonical(tree: ast.Module, aliases: dict[str, str]) -> tuple[str, ast.Module]:
    """Text and tree. The tree is consumed."""
    renamed = Renamer(tree, aliases).run()
    return ast.unparse(renamed) + "\n", renamed


assert set(SHORT) == set(IMPORTS)
