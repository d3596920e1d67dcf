"""Which names the real headers have that the slim ones lack: the ground on which a failed slim build is judged.

    real.words      every identifier in the preprocessed <torch/extension.h>, macro names and bodies included
    missing.words   those that the slim headers never mention
    global.words    names that the real headers declare at global scope (a superset), and all their macros
    tensor.words    names that at::Tensor and its base may have as members (a superset, without the parameters' names)
    conflict.words  of global.words, those that are missing: a source that has one may mean something else there

A name that is not in real.words can't come from the real headers at all.
"""

import re

WORD = re.compile(r"[A-Za-z_]\w*")
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'')
MACRO = re.compile(r"#define (\w+)")
NAMESPACE = re.compile(r"\s*(?:inline\s+)?namespace\s+(\w+)")
KEYWORDS = set(
    "alignas alignof asm auto bool break case catch char class const constexpr const_cast continue decltype default delete "
    "do double dynamic_cast else enum explicit extern false final float for friend goto if inline int long mutable "
    "namespace new noexcept nullptr operator override private protected public register reinterpret_cast return short "
    "signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef "
    "typeid typename union unsigned using virtual void volatile while".split())
PARAMETER = re.compile(r"\b(?:typename|class)\s*(?:\.\.\.)?\s*(\w+)")
TEMPLATE = re.compile(r"\btemplate\s*<")
QUALIFIED = re.compile(r"::\s*~?\w+")
MEMBER = re.compile(r"\b([A-Za-z_]\w*)\s*(?=[(;={<\[:]|$)")
# Braces whose contents belong to the scope around them.
TRANSPARENT = re.compile(r"(?:extern\s*|\benum\b[^;{}()]*)$")


def without_template_header(text, angle, parameters):
    """The text without `template <…>`, whose parameters are no names of the scope; `angle` is its open depth."""
    out = ""
    while text:
        if angle == 0:
            match = TEMPLATE.search(text)
            if not match:
                return out + text, 0
            out, text, angle = out + text[: match.start()] + " ", text[match.end():], 1
            continue
        end = len(text)
        for i, c in enumerate(text):
            angle += (c == "<") - (c == ">")
            if angle == 0:
                end = i
                break
        parameters.update(PARAMETER.findall(text[:end]))
        text = text[end + 1:]
    return out, angle


def scan(path, with_literals):
    """(all words, words at global scope, macros) of a file made by g++ -E -dD."""
    words, scope, macros = set(), set(), set()
    stack, parens, before, angle, parameters = [], 0, "", 0, set()
    with open(path, errors="replace") as lines:
        for line in lines:
            if line.startswith("#"):
                if line.startswith("#define "):
                    macros.add(MACRO.match(line).group(1))
                    words.update(WORD.findall(line))
                continue
            if not line.strip():
                continue
            bare = LITERAL.sub(" ", line) if '"' in line or "'" in line else line
            words.update(WORD.findall(line if with_literals else bare))
            opaque = any(stack)
            if opaque and "{" not in bare and "}" not in bare:
                continue
            for part in re.split(r"([{}();])", bare):
                if part == "{":
                    stack.append(not (parens == 0 and TRANSPARENT.search(before)))
                    before = ""
                    parameters.clear()
                elif part == "}":
                    if stack:
                        stack.pop()
                    before = ""
                elif part == ";":
                    before, angle = "", 0
                    parameters.clear()
                elif any(stack):
                    continue
                elif part == "(":
                    parens += 1
                elif part == ")":
                    parens = max(0, parens - 1)
                elif parens == 0:
                    part, angle = without_template_header(part, angle, parameters)
                    namespace = NAMESPACE.match(part)
                    names = [namespace.group(1)] if namespace else WORD.findall(QUALIFIED.sub(" ", part))
                    scope.update(name for name in names if name not in parameters)
                    before = (before + " " + part)[-400:]
    return words, scope, macros


def members(path):
    """Names in the classes of tensors that are called, defined or declared there: no member is missed."""
    names, inside = set(), False
    with open(path, errors="replace") as lines:
        for line in lines:
            if line.startswith("# "):
                inside = line.split('"')[1].endswith(("ATen/core/TensorBody.h", "ATen/core/TensorBase.h"))
            elif inside and not line.startswith("#"):
                names.update(MEMBER.findall(line))
    return names


def compare(real_path, slim_path):
    """{file name: sorted words}."""
    real_words, real_scope, real_macros = scan(real_path, True)
    slim_words, slim_scope, slim_macros = scan(slim_path, False)
    visible = (real_scope | real_macros) - KEYWORDS
    return {
        "real.words": sorted(real_words),
        "missing.words": sorted(real_words - slim_words),
        "global.words": sorted(visible),
        "tensor.words": sorted(members(real_path)),
        "conflict.words": sorted(visible - slim_scope - slim_macros),
    }
