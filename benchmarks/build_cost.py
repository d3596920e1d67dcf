"""CPU-seconds of one `cpp` build: through the broker (slim headers, cold; again, cached) and by plain load_inline, the
same sources in the same run, since the speed of a shared machine drifts.

    .venv/bin/python benchmarks/build_cost.py --keck-build build/release/bin/keck-build [--plain 1] [--repeat 5] [--out F.json]

Cold: an empty build cache with the precompiled header there, as in every build but the first on a host. The broker's
figure is what it reports for a verdict (the compilers' CPU time, driver, assembler and linker included); plain is what
all child processes of load_inline used.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    # The shape of this project's own corpus rows.
    "row loops": (
        ["-O3"],
        ["forward"],
        """#include <torch/extension.h>
#include <cmath>

torch::Tensor forward(torch::Tensor x, torch::Tensor w) {
  const int N = x.size(0), W = x.size(1);
  TORCH_CHECK(x.is_contiguous() && W <= 1024);
  auto y = torch::empty({N, W});
  const float* xp = x.data_ptr<float>();
  const float* wp = w.data_ptr<float>();
  float* yp = y.data_ptr<float>();
  float v[1024], u[1024];
  for (int i = 0; i < N; i++) {
    int n = W;
    for (int j = 0; j < n; j++) v[j] = xp[i * n + j];
    float m = v[0];
    for (int j = 1; j < n; j++) m = v[j] > m ? v[j] : m;
    float s = 0;
    for (int j = 0; j < n; j++) { u[j] = std::exp(v[j] - m); s += u[j]; }
    for (int j = 0; j < n; j++) v[j] = u[j] / s * wp[j];
    for (int j = 0; j < n; j++) yp[i * n + j] = v[j];
  }
  return y;
}
""",
    ),
    # What a larger model writes: OpenMP, vectors, messages, two functions.
    "openmp layer norm": (
        ["-O3", "-fopenmp", "-march=native"],
        ["layer_norm", "gelu"],
        """#include <torch/extension.h>
#include <algorithm>
#include <cmath>
#include <omp.h>
#include <vector>

torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  TORCH_CHECK(x.dim() == 2, "expected a matrix, got ", x.dim(), " dimensions");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "expected float32, got ", x.scalar_type());
  auto in = x.contiguous();
  auto out = torch::empty_like(in);
  const int64_t rows = in.size(0), cols = in.size(1);
  const float* p = in.data_ptr<float>();
  const float* g = weight.data_ptr<float>();
  const float* b = bias.data_ptr<float>();
  float* q = out.data_ptr<float>();
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = p + r * cols;
    float mean = 0, var = 0;
    for (int64_t c = 0; c < cols; ++c) mean += a[c];
    mean /= cols;
    for (int64_t c = 0; c < cols; ++c) var += (a[c] - mean) * (a[c] - mean);
    const float scale = 1.f / std::sqrt(var / cols + static_cast<float>(eps));
    for (int64_t c = 0; c < cols; ++c) q[r * cols + c] = (a[c] - mean) * scale * g[c] + b[c];
  }
  return out;
}

torch::Tensor gelu(torch::Tensor x) {
  auto in = x.contiguous();
  auto out = torch::empty_like(in);
  const float* p = in.data_ptr<float>();
  float* q = out.data_ptr<float>();
  const int64_t n = in.numel();
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) {
    const float v = std::max(p[i], -30.f);
    q[i] = 0.5f * v * (1.f + std::tanh(0.7978845608f * (v + 0.044715f * v * v * v)));
  }
  return out;
}
""",
    ),
    # An error of the candidate's own.
    "undeclared name": (
        ["-O3"],
        ["forward"],
        """#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  for (int64_t i = 0; i < num_elements_; ++i) y.data_ptr<float>()[i] = x.data_ptr<float>()[i];
  return y;
}
""",
    ),
}


def broker(tool, name, repeat):
    flags, functions, source = SOURCES[name]
    cold, cached = [], []
    with tempfile.TemporaryDirectory(prefix="kz-bench-") as folder:
        file = Path(folder) / "kernel.cpp"
        file.write_text(source)
        command = [tool, *(f"--cflag={f}" for f in flags), *(f"--function={f}" for f in functions), str(file)]
        for i in range(repeat + 1):  # the first makes the precompiled header, if need be
            out = subprocess.run([*command, "--cache", f"{folder}/{i}", "--repeat", "2"], capture_output=True, text=True)
            lines = [json.loads(line) for line in out.stdout.splitlines()]
            if len(lines) != 2:
                sys.exit(out.stderr)
            if i > 0:
                cold.append(lines[0])
                cached.append(lines[1])
    return cold, cached


def plain(name):
    """One load_inline in a process of its own, with an empty extension cache."""
    flags, functions, source = SOURCES[name]
    script = (
        "import resource, json, time, sys\n"
        "from torch.utils.cpp_extension import load_inline\n"
        "t = time.time()\n"
        "ok = True\n"
        f"try: load_inline('kernel', {source!r}, functions={functions!r}, extra_cflags={flags!r})\n"
        "except Exception: ok = False\n"
        "r = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps({'ok': ok, 'cpu_seconds': r.ru_utime + r.ru_stime, 'seconds': time.time() - t}))\n")
    with tempfile.TemporaryDirectory(prefix="kz-bench-") as folder:
        out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                             env={**os.environ, "TORCH_EXTENSIONS_DIR": folder})
        return json.loads(out.stdout.splitlines()[-1])


def middle(values):
    return sorted(values)[len(values) // 2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keck-build", required=True)
    parser.add_argument("--plain", type=int, default=1, help="how often load_inline is run a source; 0: not")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    result = {
        "command": "benchmarks/build_cost.py " + " ".join(sys.argv[1:]),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, {model.group(1) if model else platform.machine()}",
        "load_average_before": os.getloadavg()[0],
        "sources": {},
    }
    print(f"{'source':20} {'slim cold':>10} {'min':>6} {'cached':>7} {'plain':>7} {'ratio':>6}   CPU-seconds, medians")
    for name in SOURCES:
        cold, cached = broker(arguments.keck_build, name, arguments.repeat)
        plains = [plain(name) for _ in range(arguments.plain)]
        row = {
            "verdict": "ok" if cold[0]["ok"] else "fail",
            "headers": cold[0]["headers"],
            "slim_cold_cpu_s": [r["cpu_seconds"] for r in cold],
            "slim_cold_wall_s": [r["seconds"] for r in cold],
            "cached_cpu_s": [r["cpu_seconds"] for r in cached],
            "cached_wall_s": [r["seconds"] for r in cached],
            "plain_cpu_s": [r["cpu_seconds"] for r in plains],
            "plain_wall_s": [r["seconds"] for r in plains],
            "plain_verdict": ["ok" if r["ok"] else "fail" for r in plains],
        }
        slim = middle(row["slim_cold_cpu_s"])
        if plains:
            row["ratio"] = middle(row["plain_cpu_s"]) / slim
        result["sources"][name] = row
        print(f"{name:20} {slim:10.3f} {min(row['slim_cold_cpu_s']):6.3f} {middle(row['cached_cpu_s']):7.3f} "
              f"{middle(row['plain_cpu_s']) if plains else float('nan'):7.1f} {row.get('ratio', float('nan')):6.0f}", flush=True)
    result["load_average_after"] = os.getloadavg()[0]
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
