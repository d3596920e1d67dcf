"""Static facts about a Proposer's module: which APIs its AST uses, what it uses that a module may not, and its canonical text.

Nothing here runs the module. What is not known to be harmless is reported as forbidden; whether that matters is decided in C++
(src/keck/worker/module_gate.h).
"""

from __future__ import annotations

import ast
import hashlib
from typing import Any

IMPORTS = {"torch": "torch", "torch.nn": "torch.nn", "torch.nn.functional": "torch.nn.functional", "math": "math"}
BUILTINS = frozenset(
    "range len int float bool tuple list dict max min abs sum round enumerate zip super isinstance reversed sorted any all None True False".split()
)
DTYPES = "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 bool float double half int long"
# Names under torch that are no API of their own.
PLAIN = frozenset(f"torch.{n}" for n in (DTYPES + " Tensor Size device no_grad finfo iinfo inf pi e nan").split()) | {
    "torch.nn.Module",
    "torch.nn.functional",
    "torch.nn",
    "torch.nn.init",
}
RANDOM = frozenset("torch.randn torch.rand torch.randint torch.randperm torch.normal torch.bernoulli torch.randn_like torch.rand_like".split())
CREATE = frozenset("torch.empty torch.zeros torch.ones torch.full torch.arange torch.linspace torch.tensor torch.eye torch.nn.Parameter".split())
# Methods that query or arrange, and what nn.Module offers to a constructor.
METHODS = frozenset(
    """size dim numel item view reshape expand contiguous to type float double half int long bool clone detach view_as expand_as type_as
    new_zeros new_ones new_full new_empty append extend insert register_buffer register_parameter add_module requires_grad_
    is_floating_point stride element_size unbind keys values items""".split()
)
ATTRIBUTES = frozenset("shape dtype device T mT ndim weight bias training data eps max min is_cuda real imag".split())
STATEMENTS = (
    ast.FunctionDef,
    ast.ClassDef,
    ast.Return,
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.For,
    ast.If,
    ast.Expr,
    ast.Pass,
    ast.Import,
    ast.ImportFrom,
    ast.With,
)
EXPRESSIONS = (
    ast.BoolOp,
    ast.BinOp,
    ast.UnaryOp,
    ast.IfExp,
    ast.Dict,
    ast.ListComp,
    ast.GeneratorExp,
    ast.Compare,
    ast.Call,
    ast.Constant,
    ast.Attribute,
    ast.Subscript,
    ast.Starred,
    ast.Name,
    ast.List,
    ast.Tuple,
    ast.Slice,
)
MAX_TEXT = 24  # of a string constant: a mode or a reduction is shorter, a message is not


class Catalogue:
    """Spelling to canonical name, from data/apis/catalogue.json."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.spellings: dict[str, str] = {}
        for entry in entries:
            for spelling in [entry["name"], *entry["aliases"]]:
                self.spellings.setdefault(spelling, entry["name"])

    def canonical(self, spelling: str) -> str | None:
        return self.spellings.get(spelling)


class Scan:
    """One walk over a module's tree."""

    def __init__(self, tree: ast.Module, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.tree = tree
        self.aliases: dict[str, str] = {}  # local name -> dotted name that an import gave it
        self.forbidden: list[dict[str, Any]] = []
        self.apis: dict[str, int] = {}  # canonical -> first line, in the order of the text
        self.unknown: dict[str, int] = {}
        self.defined: set[str] = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        self.methods: set[str] = {f.name for c in tree.body if isinstance(c, ast.ClassDef) for f in c.body if isinstance(f, ast.FunctionDef)}
        self.where = ""  # the function that is walked: "get_inputs", "__init__", "forward" …
        self.run()

    def refuse(self, node: ast.AST, code: str, what: str) -> None:
        self.forbidden.append({"code": code, "line": getattr(node, "lineno", 0), "what": what[:80]})

    def run(self) -> None:
        for node in self.tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.import_(node)
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                self.function(node)
            elif isinstance(node, ast.ClassDef):
                self.class_(node)
            elif not isinstance(node, (ast.Import, ast.ImportFrom)):
                self.visit(node)

    def import_(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name not in IMPORTS:
                    self.refuse(node, "import", name.name)
                elif name.asname:
                    self.aliases[name.asname] = IMPORTS[name.name]
                else:
                    self.aliases[name.name.split(".")[0]] = name.name.split(".")[0]
            return
        if node.module == "typing" and not node.level:
            return  # annotations are dropped
        for name in node.names:
            full = f"{node.module}.{name.name}"
            if node.level or node.module not in IMPORTS or name.name == "*":
                self.refuse(node, "import", full)
            else:
                self.aliases[name.asname or name.name] = full

    def class_(self, node: ast.ClassDef) -> None:
        bases = [self.dotted(b) for b in node.bases]
        if bases != ["torch.nn.Module"] or node.keywords or node.decorator_list:
            self.refuse(node, "class", f"class {node.name} is no plain nn.Module")
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                self.function(part)
            elif not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)) and not isinstance(part, ast.Pass):
                self.refuse(part, "class_body", type(part).__name__)

    def function(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            self.refuse(node, "decorator", node.name)
        if node.name.startswith("__") and node.name != "__init__":
            self.refuse(node, "dunder", node.name)
        outer, self.where = self.where, node.name
        for default in [*node.args.defaults, *[d for d in node.args.kw_defaults if d]]:
            self.visit(default)
        for part in node.body:
            self.visit(part)
        self.where = outer

    def dotted(self, node: ast.AST) -> str | None:
        """'torch.nn.functional.relu' for F.relu; None for what is rooted in a value."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id)
        if isinstance(node, ast.Attribute):
            root = self.dotted(node.value)
            return None if root is None else f"{root}.{node.attr}"
        return None

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring: stripped
        if isinstance(node, ast.stmt):
            if not isinstance(node, STATEMENTS):
                self.refuse(node, "statement", type(node).__name__)
                return
            if isinstance(node, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)):
                self.refuse(node, "nested", type(node).__name__)
                return
            self.statement(node)
        elif isinstance(node, ast.expr):
            if not isinstance(node, EXPRESSIONS):
                self.refuse(node, "expression", type(node).__name__)
                return
            if self.expression(node):
                return
        for child in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.AnnAssign) and child is node.annotation):
                self.visit(child)

    def statement(self, node: ast.stmt) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
        for target in (t for top in targets for t in ast.walk(top)):
            if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                if self.where != "__init__":
                    self.refuse(target, "state", f"{target.attr} is assigned outside __init__")
                elif not (isinstance(target.value, ast.Name) and target.value.id == "self"):
                    self.refuse(target, "attribute_store", target.attr)
        if isinstance(node, ast.With) and any(self.dotted(getattr(i.context_expr, "func", i.context_expr)) != "torch.no_grad" for i in node.items):
            self.refuse(node, "statement", "with")

    def expression(self, node: ast.expr) -> bool:
        """True when its children are done with."""
        if isinstance(node, ast.Constant):
            if isinstance(node.value, (bytes, complex)) or (isinstance(node.value, str) and len(node.value) > MAX_TEXT):
                self.refuse(node, "constant", repr(node.value))
        elif isinstance(node, ast.Name):
            if node.id.startswith("__"):
                self.refuse(node, "dunder", node.id)
            elif node.id in self.aliases:
                self.torch_name(node, self.aliases[node.id])
            elif isinstance(node.ctx, ast.Store) and (node.id in BUILTINS or node.id in self.defined):
                self.refuse(node, "shadow", node.id)
        elif isinstance(node, ast.Attribute):
            return self.attribute(node)
        elif isinstance(node, ast.Call):
            self.call(node)
        return False

    def attribute(self, node: ast.Attribute) -> bool:
        full = self.dotted(node)
        if full is not None:
            self.torch_name(node, full)
            return True
        if node.attr.startswith("__") and node.attr != "__init__":
            self.refuse(node, "dunder", node.attr)
        return False

    def torch_name(self, node: ast.AST, full: str) -> None:
        if full.startswith("math.") or full in PLAIN or full in IMPORTS:
            return
        inputs = self.where in ("get_inputs", "get_init_inputs")
        canonical = self.catalogue.canonical(full)
        if full in RANDOM:
            if not inputs and self.where != "__init__":
                self.refuse(node, "random", full)
        elif inputs:
            if canonical is None and full not in CREATE:
                self.refuse(node, "torch_name", full)
        elif canonical is not None:
            self.apis.setdefault(canonical, getattr(node, "lineno", 0))
        elif full.startswith("torch.nn.init.") and self.where == "__init__":
            return
        elif full not in CREATE:
            self.unknown.setdefault(full, getattr(node, "lineno", 0))
            self.refuse(node, "torch_name", full)

    def call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            known = function.id in BUILTINS or function.id in self.defined or function.id in self.aliases
            if not known:
                self.refuse(node, "call", function.id)
        elif isinstance(function, ast.Attribute):
            if self.dotted(function) is not None:
                return
            own = isinstance(function.value, ast.Name) and function.value.id == "self"
            if own or function.attr == "__init__":
                return  # a submodule or a method of this class, or super().__init__()
            self.method(node, function.attr)
        elif not isinstance(function, ast.Subscript):  # self.layers[i](x) is fine
            self.refuse(node, "call", type(function).__name__)

    def method(self, node: ast.Call, name: str) -> None:
        canonical = self.catalogue.canonical(f"torch.Tensor.{name}")
        if canonical is not None:
            if self.where not in ("get_inputs", "get_init_inputs"):
                self.apis.setdefault(canonical, node.lineno)
        elif name not in METHODS:
            self.unknown.setdefault(f"torch.Tensor.{name}", node.lineno)
            self.refuse(node, "method", name)


def source_hash(tree: ast.Module) -> str:
    return hashlib.sha256(ast.dump(tree, annotate_fields=False).encode()).hexdigest()
