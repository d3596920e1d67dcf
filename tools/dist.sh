#!/usr/bin/env bash
# make dist: dist/kernelzero, a relocatable tree. Third-party libraries are static in it; torch comes from the python3 of the
# machine that it runs on (KERNELZERO_PYTHON, else python3 on PATH), the shim is built there at first start.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 out=dist/kernelzero
rm -rf "$out"
mkdir -p "$out"/{bin,lib,libexec,src/headers}
for b in keck keck-judge kernelzero; do
  cp "build/$preset/bin/$b" "$out/libexec/$b"
  cat > "$out/bin/$b" <<'SH'
#!/bin/sh
# Finds torch's libraries in the Python of this machine, then runs the program of the same name.
here=$(cd "$(dirname "$0")/.." && pwd)
export KERNELZERO_HOME="${KERNELZERO_HOME:-$here}"
export KERNELZERO_PYTHON="${KERNELZERO_PYTHON:-$(command -v python3)}"
torch=$("$KERNELZERO_PYTHON" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])') ||
  { echo "$0: no torch in $KERNELZERO_PYTHON: set KERNELZERO_PYTHON to a Python with torch 2.11" >&2; exit 2; }
export LD_LIBRARY_PATH="$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/libexec/$(basename "$0")" "$@"
SH
  chmod +x "$out/bin/$b"
done
find "build/$preset/lib" -maxdepth 1 -name '*.so' -exec cp {} "$out/lib/" \;
strip --strip-unneeded "$out"/libexec/* "$out"/lib/*.so
tar --exclude=__pycache__ -cf - python configs data src/headers | tar -xf - -C "$out"
for b in "$out"/libexec/*; do
  foreign=$(ldd "$b" | awk '{print $1}' | grep -vE '^(linux-vdso|/lib64/ld-linux|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|lib(torch|torch_cpu|torch_cuda|c10|c10_cuda|gomp|cu|nv|shm).*)' || true)
  [ -z "$foreign" ] || { echo "dist: $b needs shared libraries that the other machine may lack: $foreign" >&2; exit 1; }
done
du -sh "$out"
