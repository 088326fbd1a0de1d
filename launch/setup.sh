# Sourced by launch/quickstart.sh and tests/run.sh: makes .venv and installs the package with the extras given.
# Usage: . launch/setup.sh [EXTRA,EXTRA]; afterwards $python is the interpreter of .venv.

_find_python() {
  for name in python3 python3.11 python3.12 python3.13 python3.14 python; do
    if command -v "$name" >/dev/null 2>&1 &&
      "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

_fail() {
  echo "setup: $1" >&2
  exit 2
}

python=.venv/bin/python
extras=${1:+[$1]}
if [ ! -x "$python" ]; then
  found=$(_find_python) || _fail "no Python 3.11 or newer on PATH (found: $(python3 --version 2>&1 || echo none)); install one and run this again"
  "$found" -m venv .venv || _fail "'$found -m venv .venv' failed (on Debian and Ubuntu: apt install python3-venv)"
fi

# Installing again takes seconds even when nothing changes: remember what was installed from which files.
wanted="$extras $(cat setup.py constraints.txt | cksum)"
if [ "$(cat ".venv/installed$extras" 2>/dev/null)" != "$wanted" ]; then
  echo "setup: installing bert-jax$extras into .venv"
  "$python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".$extras" ||
    _fail "installation failed; the lines above say why (the network must reach a Python package index)"
  echo "$wanted" >".venv/installed$extras"
fi
