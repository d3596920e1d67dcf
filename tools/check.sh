#!/usr/bin/env bash
# make check: format, every header compiled alone, clang-tidy, and the sanitizer build with its tests.
#   check.sh PRESET JOBS [format|headers|tidy|asan …]   (default: all four, cheapest first)
# Every step runs, whatever the one before it said; the exit code is 1 if one was not clean.
# KZ_TIDY=all looks at every unit; the default at those of the last 20 commits and at a quarter of the rest, in turn.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 jobs=$2
shift 2
[ $# -gt 0 ] || set -- format headers tidy asan

sources() { git ls-files -- 'src/*.cpp' 'src/*.h' 'tests/*.cpp' 'tests/*.h' | grep -v '^src/headers/slim/'; }
# Units that see torch headers are left to the compiler's own warnings: each costs clang-tidy a minute.
torch_free() { sources | grep -vE '^src/(lm|train|headers)/'; }
tidy_units() { torch_free | grep '^src/.*\.cpp$' | grep -v '_test\.cpp$'; }

# All of them take clang-tidy longer than CI has.
tidy_part() {
  [ "${KZ_TIDY:-part}" = all ] && { tidy_units; return; }
  local turn
  turn=$(($(git rev-list --count HEAD) % 4))
  { tidy_units | awk -v turn="$turn" 'NR % 4 == turn'
    { git log -20 --format= --name-only; git diff --name-only HEAD; } | grep -xFf <(tidy_units) || true
  } | sort -u
}

if [ $# -gt 1 ]; then
  unclean=()
  for step in "$@"; do "$0" "$preset" "$jobs" "$step" || unclean+=("$step"); done
  [ ${#unclean[@]} -eq 0 ] || { echo "check: not clean: ${unclean[*]}" >&2; exit 1; }
  exit 0
fi

begin=$SECONDS
trap '[ $? -eq 0 ] && echo "check: $1 is clean ($((SECONDS - begin)) s)" || echo "check: $1 is NOT clean ($((SECONDS - begin)) s)"' EXIT
case $1 in
  format) sources | xargs clang-format-19 --dry-run -Werror ;;
  headers)
    flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Werror -Isrc -x c++)
    # Included, since "#pragma once" in a main file is a warning of its own.
    torch_free | grep '\.h$' | xargs -P "$jobs" -I{} g++ "${flags[@]}" -include {} /dev/null ;;
  tidy)
    # Without g++'s precompiled header, which clang cannot read and which would hide an include that a unit forgot.
    mkdir -p build/tidy
    sed -E 's@-Winvalid-pch|-fpch-preprocess|-include [^ ]*/cmake_pch\.hxx@@g' "build/$preset/compile_commands.json" > build/tidy/compile_commands.json
    # The analyzer follows Asio's coroutines into null pointers that are none: units that include it do without.
    units=$(tidy_part) asio=$(tidy_part | xargs -r grep -lE '^#include <boost/(asio|beast)' || true)
    tidy() {
      xargs -r -P "$jobs" -n 4 clang-tidy-19 -p build/tidy --quiet "$@" \
        2> >(grep -v 'warnings generated\|Suppressed\|Use -header-filter\|Processing file' >&2)
    }
    unclean=
    echo "$asio" | tidy '--checks=-clang-analyzer-*' || unclean=1
    { echo "$units" | grep -vxF "${asio:-none}" || true; } | tidy || unclean=1
    [ -z "$unclean" ] ;;
  asan)
    cmake --preset asan > /dev/null
    cmake --build --preset asan -j "$jobs"
    ctest --preset asan --no-tests=error -j "$jobs" -LE 'slow|gpu|exploit' ;;
  *) echo "check: no step called $1 (format, headers, tidy, asan)" >&2; exit 2 ;;
esac
