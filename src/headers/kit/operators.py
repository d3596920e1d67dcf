"""Reads the operators that the installed torch declares and writes their slim declarations and the shim's side of them.

Input are three places of torch/include: the methods of ATen/core/TensorBody.h, the functions of ATen/ops/*.h and the
factories of torch/csrc/autograd/generated/variable_factories.h. Each overload whose types are all in TYPES becomes

    slim   Tensor relu() const KZ_SYMBOL("kz_m_relu_0");
    shim   Tensor kz_m_relu_0(const Tensor& self) { KZ_OPERATOR("relu"); return self.relu(); }

The slim declaration has no body: a call is a call of the shim's function, since `this` is passed like a first argument.
One declaration a line, so that a compiler without precompiled headers can be given only the names that a source has.
"""

import re
from dataclasses import dataclass
from pathlib import Path

# Types that mean the same on both sides: builtin, std, c10 (the real c10 headers), at::Tensor (one pointer).
TYPES = {
    "void", "bool", "int64_t", "double", "size_t", "at::Tensor", "at::TensorList", "at::Scalar", "at::IntArrayRef",
    "at::OptionalIntArrayRef", "at::ArrayRef<double>", "at::ArrayRef<at::Scalar>", "at::ScalarType", "at::MemoryFormat",
    "at::Layout", "at::Device", "at::TensorOptions", "c10::string_view", "std::string_view",
    "std::optional<at::Tensor>", "std::optional<at::Scalar>", "std::optional<int64_t>", "std::optional<double>",
    "std::optional<bool>", "std::optional<at::ScalarType>", "std::optional<at::MemoryFormat>",
    "std::optional<at::Layout>", "std::optional<at::Device>", "std::optional<c10::string_view>",
    "std::optional<std::string_view>", "std::optional<at::ArrayRef<double>>", "std::vector<at::Tensor>",
    "std::vector<int64_t>",
}
# A list that the real header takes by its own reference type; the slim one offers the plain list, which converts.
ALIASES = {"at::ITensorListRef": "at::TensorList"}
# Defaulted parameters that can't be named without the real headers: the slim overload goes without, the shim passes none.
DROPPED = {"std::optional<at::Generator>", "std::optional<at::DimnameList>"}
# Methods that slim/kz/tensor.h declares itself.
OWN_METHODS = set(
    "size stride is_contiguous contiguous item is_floating_point is_complex is_signed numel dim sizes strides options "
    "dtype device layout is_same requires_grad requires_grad_ storage_offset data is_leaf output_nr toType".split())


@dataclass
class Operator:
    kind: str  # "m" method, "f" function of at, "t" function of torch
    name: str
    symbol: str
    slim: str  # one line, the declaration
    shim: str  # one line, the definition


def split_top(text, separator=","):
    parts, depth, current = [], 0, ""
    for c in text:
        depth += c in "<({"
        depth -= c in ">)}"
        if c == separator and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += c
    return parts + [current.strip()] if current.strip() else parts


def plain(type_text):
    """The type without const, reference and leading ::, the key of TYPES."""
    text = re.sub(r"\bconst\b|&", " ", type_text).replace("::std::", "std::")
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\s*([<>,])\s*", r"\1", text)


def known(type_text):
    text = plain(type_text)
    tuple_of = re.fullmatch(r"std::tuple<(.*)>", text)
    return all(known(part) for part in split_top(tuple_of.group(1))) if tuple_of else text in TYPES


def parameters(text):
    """[(type, name, default)] of the overload, name None for a dropped one; None when it can't be expressed."""
    result = []
    for part in split_top(text):
        match = re.fullmatch(r"(.*?[\s&])([A-Za-z_]\w*)\s*(?:=\s*(.*))?", part, re.S)
        if not match:
            return None
        type_text, name, default = match.group(1).strip(), match.group(2), match.group(3)
        if plain(type_text) in DROPPED and default is not None:
            result.append((plain(type_text), None, None))
            continue
        if plain(type_text) in ALIASES:
            type_text = ALIASES[plain(type_text)]
        if not known(type_text):
            return None
        result.append((type_text, name, default))
    return result


def operator(kind, name, returns, arguments, index):
    parsed = parameters(arguments)
    if parsed is None or not known(returns):
        return None
    symbol = f"kz_{kind}_{name}_{index}"
    kept = [p for p in parsed if p[1] is not None]
    slim = ", ".join(f"{t} {n}" + (f" = {d}" if d is not None else "") for t, n, d in kept)
    # Parameter names of the shim are its own, so that "self", "out" and the like can't clash.
    shim = ", ".join(f"{t} p{i}" for i, (t, n, _) in enumerate(parsed) if n is not None)
    call = ", ".join(f"p{i}" if n is not None else f"{t}{{}}" for i, (t, n, _) in enumerate(parsed))
    if kind == "m":
        shim = "const at::Tensor& self" + (", " if shim else "") + shim
        callee, suffix = f"self.{name}", " const"
    else:
        callee, suffix = ("at::" if kind == "f" else "torch::") + name, ""
    return Operator(
        kind, name, symbol, f'{returns} {name}({slim}){suffix} KZ_SYMBOL("{symbol}");',
        f'{returns} {symbol}({shim}) {{ KZ_OPERATOR("{name}"); return {callee}({call}); }}')


def wanted(name):
    return not name.startswith("_") and "symint" not in name and not name.endswith("_outf")


def collect(include):
    """All operators, in a fixed order, and the number of overloads that were left out."""
    include = Path(include)
    found, left_out, seen, counts = [], 0, set(), {}

    def add(kind, name, returns, arguments):
        nonlocal left_out
        key = (kind, name, re.sub(r"\s+", "", arguments))
        if key in seen:
            return
        seen.add(key)
        index = counts.get((kind, name), 0)
        op = operator(kind, name, returns.strip(), arguments, index)
        if op is None:
            left_out += 1
        else:
            counts[(kind, name)] = index + 1
            found.append(op)

    body = (include / "ATen/core/TensorBody.h").read_text()
    start = body.index("class TORCH_API Tensor")
    for match in re.finditer(r"^  ((?:const )?(?:::)?[a-z_][\w:<>, ]*?[ &]+)(\w+)\((.*)\) const;$",
                             body[start:body.index("\n};", start)], re.M):
        if wanted(match.group(2)) and match.group(2) not in OWN_METHODS:
            add("m", match.group(2), match.group(1), match.group(3))

    function = re.compile(r"^inline (.*?[ &])(\w+)\((.*)\) \{$", re.M)
    for path in sorted((include / "ATen/ops").glob("*.h")):
        if re.search(r"(_ops|_native|_dispatch)\.h$", path.name) or path.name == "from_blob.h":
            continue
        for match in function.finditer(path.read_text()):
            if wanted(match.group(2)):
                add("f", match.group(2), match.group(1), match.group(3))

    factories = (include / "torch/csrc/autograd/generated/variable_factories.h").read_text()
    for match in function.finditer(factories):
        if wanted(match.group(2)) and match.group(2) not in ("tensor", "from_blob"):
            add("t", match.group(2), match.group(1), match.group(3))
    return found, left_out
