#!/usr/bin/env bash
# make check: format, clang-tidy, every header compiled alone, and the sanitizer build with its tests.
#   check.sh PRESET JOBS [format|tidy|headers|asan …]   (default: all four)
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 jobs=$2
shift 2
[ $# -gt 0 ] || set -- format tidy headers asan

sources() { git ls-files -- 'src/*.cpp' 'src/*.h' 'tests/*.cpp' 'tests/*.h' | grep -v '^src/headers/slim/'; }
# Units that see torch headers are left to the compiler's own warnings: each costs clang-tidy a minute.
torch_free() { sources | grep -vE '^src/(lm|train|headers)/'; }

for step in "$@"; do
  begin=$SECONDS
  case $step in
    format) sources | xargs clang-format-19 --dry-run -Werror ;;
    tidy) torch_free | grep '\.cpp$' | grep -v '_test\.cpp$' |
            xargs -P "$jobs" -n 4 clang-tidy-19 -p "build/$preset" --quiet 2> >(grep -v 'warnings generated\|Suppressed\|Use -header-filter' >&2) ;;
    headers)
      flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Werror -Isrc -x c++)
      torch_free | grep '\.h$' | xargs -P "$jobs" -I{} g++ "${flags[@]}" {} ;;
    asan)
      cmake --preset asan > /dev/null
      cmake --build --preset asan -j "$jobs"
      ctest --preset asan --no-tests=error -j "$jobs" -LE 'slow|gpu|exploit' ;;
    *) echo "check: no step called $step (format, tidy, headers, asan)" >&2; exit 2 ;;
  esac
  echo "check: $step is clean ($((SECONDS - begin)) s)"
done
