#!/usr/bin/env bash
# Makes this machine ready to build and run KernelZero: system packages, and a venv with torch. Safe to run again; what is
# there already is left alone.   setup.sh [--check]   (--check adds what `make check` needs)
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 2; }

[ -r /etc/os-release ] || die "no /etc/os-release: this script knows Debian 12 and Ubuntu 24.04; install the packages of setup/debian-12.txt by hand"
system=$(. /etc/os-release && echo "$ID-$VERSION_ID")
list=setup/$system.txt
[ -f "$list" ] || die "$system is not known here (known: $(cd setup && ls ./*-*.txt | grep -v check | sed 's|^\./||;s|\.txt||' | paste -sd' ')); install the packages of setup/debian-12.txt under your system's names, then: make build"
grep -q UNTRIED "$list" && say "note: the package names for $system are untried"

lists=("$list")
[ "${1:-}" = --check ] && lists+=("setup/$system-check.txt")
missing=()
for package in $(grep -hv '^#' "${lists[@]}"); do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    die "these packages are missing; run this line, then make again:
  sudo apt-get install -y --no-install-recommends ${missing[*]}"
  fi
  say "installing ${#missing[@]} packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >/dev/null
  apt-get install -y -q --no-install-recommends "${missing[@]}" >build-setup.log 2>&1 || { tail -20 build-setup.log >&2; die "apt-get failed, see build-setup.log"; }
  rm -f build-setup.log
else
  say "system packages are there"
fi

# The system's own python3, whatever else is on PATH: its headers are the ones that the packages above brought.
stamp=.venv/requirements.sha256
want=$(sha256sum setup/requirements.txt | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
  say "making .venv with $(grep -v '^#' setup/requirements.txt | paste -sd' ') (about 5 GB, a few minutes)"
  [ -x .venv/bin/python ] || /usr/bin/python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r setup/requirements.txt
  echo "$want" > "$stamp"
else
  say ".venv is there"
fi
