"""Makes the kit folder of the slim headers for the torch and the compiler that are installed here.

    python make_kit.py --describe [--cxx g++]            prints the host as JSON, with the key of its kit; imports no torch
    python make_kit.py --out DIR [--cxx g++] [--jobs N] [--donor KIT]
                                                         makes it: about 45 CPU-seconds, the shim most of them

DIR holds kit.json (what --describe prints, for whoever compares keys), libkz_shim.so, precompile.so (see precompile.c;
absent where it can't be built), gen/kz_gen/*.inc, *.words (vocabulary.py) and brought.headers: the torch headers that
<torch/extension.h> includes, one a line. It is written beside DIR and renamed, so that a DIR is always whole.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import operators  # noqa: E402
import vocabulary  # noqa: E402

HEADERS = Path(__file__).resolve().parent.parent
SCHEMA = 1


def key_of(host, patterns):
    digest = hashlib.sha256(json.dumps(host, sort_keys=True).encode())
    for path in sorted({p for pattern in patterns for p in HEADERS.glob(pattern) if p.is_file()}):
        digest.update(str(path.relative_to(HEADERS)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def describe(cxx):
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("no torch in " + sys.executable)
    torch = Path(spec.submodule_search_locations[0])
    version = re.search(r"__version__ = ['\"](.*?)['\"]", (torch / "version.py").read_text()).group(1)
    compiler = subprocess.run([cxx, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=True)
    host = {
        "schema": SCHEMA,
        "torch": version,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "soabi": sysconfig.get_config_var("SOABI"),
        "cxx": compiler.stdout.strip(),
    }
    # Keys of the parts, so that a change makes again only what it touches, and of the whole.
    generator = ["kit/make_kit.py", "kit/operators.py"]
    keys = {
        "host_key": key_of(host, []),
        "shim_key": key_of(host, [*generator, "slim/kz/abi.h", "shim.h", "shim/*"]),
        "slim_key": key_of(host, [*generator, "slim/**/*.h", "kit/precompile.c"]),
    }
    host |= keys
    host["key"] = key_of(host, ["kit/vocabulary.py"])
    # Places are not part of the key: a kit may move with its tree.
    host["torch_dir"] = str(torch)
    host["python_include"] = sysconfig.get_paths()["include"]
    return host


def include_flags(host):
    torch = Path(host["torch_dir"]) / "include"
    folders = [torch, torch / "torch/csrc/api/include", host["python_include"]]
    return [flag for folder in folders for flag in ("-isystem", str(folder))]


def run(command, log):
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if result.returncode != 0:
        sys.exit(f"{log}: {' '.join(command[:1])} failed\n{(result.stderr + result.stdout)[-4000:]}")
    return result


def dependencies(path):
    """Files of a make rule, in order."""
    text = path.read_text().split(":", 1)[1].replace("\\\n", " ")
    return [part for part in text.split() if part]


def system_headers(files, host):
    """#include lines for the public system headers among `files`: the names that <torch/extension.h> makes visible."""
    lines, openmp = [], []
    for file in files:
        cxx = re.search(r"/c\+\+/[\d.]+/(\w+(?:\.h)?)$", file)
        intrinsics = re.search(r"/gcc/[^/]+/[\d.]+/include/(x86intrin|immintrin|omp)\.h$", file)
        c = re.fullmatch(r"/usr/include/(?:x86_64-linux-gnu/)?((?:sys/)?[\w-]+\.h)", file)
        python = re.fullmatch(re.escape(host["python_include"]) + r"/(Python|frameobject|structmember)\.h", file)
        if cxx and cxx.group(1) not in ("stdlib.h", "math.h"):
            lines.append(cxx.group(1))
        elif intrinsics:
            (openmp if intrinsics.group(1) == "omp" else lines).append(intrinsics.group(1) + ".h")
        elif python:
            lines.append(python.group(1) + ".h")
        elif c and "features" not in c.group(1) and c.group(1) not in ("stdc-predef.h", "sys/cdefs.h"):
            lines.append(c.group(1))
    # Python.h wants to be first (it sets feature macros).
    lines.sort(key=lambda name: name != "Python.h")
    text = "".join(f"#include <{name}>\n" for name in dict.fromkeys(lines))
    return text + "#ifdef _OPENMP\n" + "".join(f"#include <{name}>\n" for name in dict.fromkeys(openmp)) + "#endif\n"


def kit_with_shim(folders, shim_key):
    """An older kit whose shim is the one that is wanted."""
    for kit in folders:
        try:
            if json.loads((kit / "kit.json").read_text())["shim_key"] == shim_key and (kit / "libkz_shim.so").exists():
                return kit
        except (OSError, ValueError, KeyError):
            continue
    return None


def generate(host, gen):
    include = Path(host["torch_dir"]) / "include"
    found, left_out = operators.collect(include)
    for kind, name in (("m", "methods"), ("f", "functions"), ("t", "factories")):
        (gen / f"{name}.inc").write_text("".join(op.slim + "\n" for op in found if op.kind == kind))
    (gen / "operators.inc").write_text("".join(op.shim + "\n" for op in found))
    types = (include / "torch/csrc/api/include/torch/types.h").read_text()
    (gen / "dtypes.inc").write_text("\n".join(re.findall(r"^constexpr auto k\w+ = [\w:]+;", types, re.M)) + "\n")
    return len(found), left_out


def make(host, out, cxx, jobs, donors):
    work = Path(tempfile.mkdtemp(prefix=".kit-", dir=out.parent))
    try:
        gen = work / "gen/kz_gen"
        gen.mkdir(parents=True)
        overloads, left_out = generate(host, gen)
        real, slim, rule = work / "real.ii", work / "slim.ii", work / "real.d"
        source = work / "extension.cpp"
        source.write_text("#include <torch/extension.h>\n")
        common = [cxx, "-std=c++17", "-fopenmp", *include_flags(host)]

        def words():
            run([*common, "-E", "-dD", "-MD", "-MF", str(rule), str(source), "-o", str(real)], "real headers")
            files = dependencies(rule)
            (gen / "system.inc").write_text(system_headers(files, host))
            torch = str(Path(host["torch_dir"]) / "include") + "/"
            brought = {f[len(torch):] for f in files if f.startswith(torch)}
            api = "torch/csrc/api/include/"
            brought |= {f[len(api):] for f in brought if f.startswith(api)}
            (work / "brought.headers").write_text("".join(sorted(b + "\n" for b in brought)))
            slim_flags = ["-I", str(HEADERS / "slim"), "-I", str(work / "gen")]
            run([cxx, "-std=c++17", "-fopenmp", *slim_flags, *include_flags(host), "-E", "-dD", str(source), "-o",
                 str(slim)], "slim headers")
            for name, names in vocabulary.compare(real, slim).items():
                (work / name).write_text("".join(n + "\n" for n in names))

        def compile_shim(name, text):
            unit = work / f"{name}.cpp"
            unit.write_text(text)
            version = f"{host['torch']}|{host['python']}|{host['cxx']}"
            run([cxx, "-std=c++17", "-O1", "-g0", "-fPIC", "-w", f'-DKZ_SHIM_VERSION="{version}"',
                 *include_flags(host), "-I", str(HEADERS / "shim"), "-I", str(work / "gen"), "-c", str(unit), "-o",
                 str(work / f"{name}.o")], "shim")

        def precompile():
            subprocess.run([cxx, "-x", "c", "-O1", "-shared", "-fPIC", str(HEADERS / "kit/precompile.c"), "-o",
                            str(work / "precompile.so")], capture_output=True)

        def link_shim():
            lib = Path(host["torch_dir"]) / "lib"
            linker = ["-fuse-ld=mold"] if shutil.which("mold") else []
            run([cxx, "-shared", *linker, *(str(work / f"{name}.o") for name in units), "-o",
                 str(work / "libkz_shim.so"), f"-L{lib}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python",
                 f"-Wl,-rpath,{lib}", "-Wl,--allow-shlib-undefined"], "shim")

        units = {"tensor_unit": ["tensor"], "python_unit": ["audit", "binding", "convert"]}
        donor = kit_with_shim([*donors, out, *out.parent.iterdir()], host["shim_key"])
        with ThreadPoolExecutor(jobs) as pool:
            tasks = [pool.submit(words), pool.submit(precompile)]
            if donor:
                shutil.copy2(donor / "libkz_shim.so", work)
            else:
                tasks += [pool.submit(compile_shim, name, "".join(f'#include "{part}.cpp"\n' for part in parts))
                          for name, parts in units.items()]
            for task in tasks:
                task.result()
        if not donor:
            link_shim()
        for path in [real, slim, rule, source, *(work / f"{n}{s}" for n in units for s in (".cpp", ".o"))]:
            path.unlink(missing_ok=True)
        (work / "kit.json").write_text(json.dumps({**host, "operators": overloads, "left_out": left_out}, indent=1))
        os.chmod(work, 0o755)
        if out.exists():
            old = Path(tempfile.mkdtemp(prefix=".old-", dir=out.parent))
            os.rename(out, old / "kit")
            shutil.rmtree(old)
        os.rename(work, out)
    finally:
        if work.exists():
            shutil.rmtree(work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--describe", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--donor", type=Path, action="append", default=[], help="a kit whose shim may be taken")
    arguments = parser.parse_args()
    host = describe(arguments.cxx)
    if arguments.describe:
        print(json.dumps(host))
        return
    out = arguments.out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        if json.loads((out / "kit.json").read_text())["key"] == host["key"]:
            return
    except (OSError, ValueError, KeyError):
        pass
    make(host, out, arguments.cxx, max(1, arguments.jobs), arguments.donor)


if __name__ == "__main__":
    main()
