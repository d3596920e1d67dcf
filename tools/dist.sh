#!/usr/bin/env bash
# make dist: dist/kernelzero, a relocatable tree. It carries the third-party libraries that it needs; torch comes from the
# python3 of the machine that it runs on (KERNELZERO_PYTHON, else python3 on PATH), the shim is built there at first start.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 out=dist/kernelzero
rm -rf "$out"
mkdir -p "$out"/{bin,lib,libexec}
# The system's own and torch's libraries are the other machine's; everything else travels.
theirs='linux-vdso|ld-linux|/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|/lib(torch|c10|gomp|cu|nv|shm)'
for program in "build/$preset"/bin/{keck,keck-judge,keck-init,kernelzero}; do
  [ -x "$program" ] || continue
  name=$(basename "$program")
  cp "$program" "$out/libexec/$name"
  { ldd "$program" 2>/dev/null || true; } | awk '$3 ~ /^\// {print $3}' | { grep -vE "$theirs" || true; } | xargs -r cp -Lnt "$out/lib"
  cat > "$out/bin/$name" <<'SH'
#!/bin/sh
# Finds torch's libraries in the Python of this machine, then runs the program of the same name.
here=$(cd "$(dirname "$0")/.." && pwd)
export KERNELZERO_HOME="${KERNELZERO_HOME:-$here}"
export KERNELZERO_PYTHON="${KERNELZERO_PYTHON:-$(command -v python3)}"
torch=$("$KERNELZERO_PYTHON" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])') ||
  { echo "$0: no torch in $KERNELZERO_PYTHON: set KERNELZERO_PYTHON to a Python with torch 2.11" >&2; exit 2; }
export LD_LIBRARY_PATH="$torch/lib:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/libexec/$(basename "$0")" "$@"
SH
  chmod +x "$out/bin/$name"
done
rm -f "$out/bin/keck-init"
cp "build/$preset"/lib/libkeck_child.so "$out/lib/"
strip --strip-unneeded "$out"/libexec/* "$out"/lib/*.so*
tar --exclude=__pycache__ --exclude='*_test.cpp' -cf - python configs data web src/headers $(ls -d models 2>/dev/null) | tar -xf - -C "$out"
du -sh "$out"
