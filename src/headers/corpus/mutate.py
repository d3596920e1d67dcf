"""Sources that mostly do not compile, made from those that do: what a model that is still learning writes.

    python mutate.py --out DIR [--count N] [--seed S] [--verdicts data/verdicts/cpp.jsonl] [--corpus right.txt]

Each source of a right row and of right.txt is damaged in one to three places: a token deleted, doubled, replaced by
another of the same source or swapped with its neighbour, a name misspelt, a line lost or repeated, the tail cut off, a
piece of Python or of Triton in place of a line. Writes DIR/NNNN.cpp, the first line a comment with the functions that
are bound. The same seed gives the same files.
"""

import argparse
import json
import random
import re
from pathlib import Path

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|[A-Za-z_]\w*|\d[\w.]*|[+\-*/%<>=!&|^]=|&&|\|\||\+\+|--|::|->|[^\s\w]')
STRAY = ["x = x.mean(dim=-1, keepdim=True)", "@triton.jit", "import torch", "return torch.relu(x)", "y = nn.Softsign()(x)",
         "v[j] = tl.cumsum(v, 0);", "for j in range(n):", "float s = torch::softmax(x, 1);", "auto z = x.softmax();",
         "y = torch::empty_like(x)", "auto w = x.index({0});", "int64_t n = x.shape[0];", "const float* q = x.data<float>();",
         "y.copy_(x)", "float m = -INFINITY", "__syncthreads();", "float t = at::max(x);", "x.data_ptr<half>();"]


def sources(verdicts, corpus):
    for line in open(verdicts):
        row = json.loads(line)
        if not row["expected"]["right"]:
            continue
        text = re.search(r'r?"""(.*?)"""', row["candidate"], re.S)
        functions = re.search(r"functions=\[(.*?)\]", row["candidate"], re.S)
        if text:
            yield text.group(1), re.findall(r"['\"](\w+)['\"]", functions.group(1)) if functions else []
    for part in corpus.read_text().split("\n//==== ")[1:]:
        head, body = part.split("\n", 1)
        functions = re.search(r"functions=(\S+)", head)
        if "headers=full" not in head:
            yield body, functions.group(1).split(",") if functions else []


def misspelt(word, rng):
    i = rng.randrange(len(word))
    return rng.choice([word[:i] + word[i + 1:], word[:i] + word[i] + word[i:], word + rng.choice("xs_2"), word.upper(),
                       word[:i] + rng.choice("abcdefgxyz") + word[i + 1:]]) or word + "x"


def damage(text, rng):
    kind = rng.randrange(10)
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    if kind == 0:
        return "\n".join(lines[:at] + lines[at + 1:])
    if kind == 1:
        return "\n".join(lines[:at + 1] + lines[at:])
    if kind == 2:
        return text[: rng.randrange(len(text) // 2, len(text))]
    if kind == 3:
        return "\n".join(lines[:at] + [rng.choice(STRAY)] + lines[at + 1:])
    tokens = [m for m in TOKEN.finditer(text) if not m.group().startswith("//")]
    if len(tokens) < 2:
        return text
    i = rng.randrange(len(tokens) - 1)
    one, two = tokens[i], tokens[i + 1]
    if kind in (4, 5):
        new = ""
    elif kind == 6:
        new = one.group() + " " + one.group()
    elif kind == 7:
        new = rng.choice(tokens).group()
    elif kind == 8:
        return text[: one.start()] + two.group() + text[one.end(): two.start()] + one.group() + text[two.end():]
    else:
        words = [m for m in tokens if re.match(r"[A-Za-z_]", m.group())]
        one = rng.choice(words or tokens)
        new = misspelt(one.group(), rng)
    return text[: one.start()] + new + text[one.end():]


def main():
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verdicts", type=Path, default=here.parents[2] / "data/verdicts/cpp.jsonl")
    parser.add_argument("--corpus", type=Path, default=here / "right.txt")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    whole = list(sources(arguments.verdicts, arguments.corpus))
    arguments.out.mkdir(parents=True, exist_ok=True)
    for n in range(arguments.count):
        text, functions = rng.choice(whole)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            text = damage(text, rng)
        (arguments.out / f"{n:04}.cpp").write_text(f"// functions: {' '.join(functions)}\n{text}")


if __name__ == "__main__":
    main()
