"""Which names the real headers have that the slim ones lack: the ground on which a failed slim build is judged.

    real.words      every identifier in the preprocessed <torch/extension.h>, macro names and bodies included
    missing.words   those that the slim headers never mention
    global.words    names that the real headers declare at global scope (a superset), and all their macros
    conflict.words  of global.words, those that are missing: a source that has one may mean something else there

A name that is not in real.words can't come from the real headers at all.
"""

import re

WORD = re.compile(r"[A-Za-z_]\w*")
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'')
MACRO = re.compile(r"#define (\w+)")
NAMESPACE = re.compile(r"\s*(?:inline\s+)?namespace\s+(\w+)")
QUALIFIED = re.compile(r"::\s*~?\w+")
# Braces whose contents belong to the scope around them.
TRANSPARENT = re.compile(r"(?:extern\s*|\benum\b[^;{}()]*)$")


def scan(path, with_literals):
    """(all words, words at global scope, macros) of a file made by g++ -E -dD."""
    words, scope, macros = set(), set(), set()
    stack, parens, before = [], 0, ""
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
                elif part == "}":
                    if stack:
                        stack.pop()
                    before = ""
                elif part == ";":
                    before = ""
                elif any(stack):
                    continue
                elif part == "(":
                    parens += 1
                elif part == ")":
                    parens = max(0, parens - 1)
                elif parens == 0:
                    namespace = NAMESPACE.match(part)
                    scope.update([namespace.group(1)] if namespace else WORD.findall(QUALIFIED.sub(" ", part)))
                    before = (before + " " + part)[-400:]
    return words, scope, macros


def compare(real_path, slim_path):
    """{file name: sorted words}."""
    real_words, real_scope, real_macros = scan(real_path, True)
    slim_words, slim_scope, slim_macros = scan(slim_path, False)
    visible = real_scope | real_macros
    return {
        "real.words": sorted(real_words),
        "missing.words": sorted(real_words - slim_words),
        "global.words": sorted(visible),
        "conflict.words": sorted(visible - slim_scope - slim_macros),
    }
