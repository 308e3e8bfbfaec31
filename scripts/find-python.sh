#!/bin/sh
# Prints the path of a Python >= 3.12 that really runs and can make an environment; explains what to install if there is none.
set -u

CHECK='import sys, venv, ensurepip
assert sys.version_info >= (3, 12)
sys.stdout.write(getattr(sys, "_base_executable", sys.executable))'

# A version manager leaves shims on PATH for versions that do not run here: only running one tells.
try() {
    found=$("$1" -c "$CHECK" 2>/dev/null) && [ -n "$found" ] && printf '%s\n' "$found" && exit 0
}

[ -n "${FOREBAY_PYTHON:-}" ] && try "$FOREBAY_PYTHON"
for name in python3.13 python3.12 python3.14; do
    try "$name"
done
for minor in 13 12 14; do
    for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor"*/bin/python3."$minor"; do
        [ -x "$candidate" ] && try "$candidate"
    done
done
try python3
if command -v uv >/dev/null 2>&1 && uv python install --quiet 3.13 >&2; then
    candidate=$(uv python find 3.13 2>/dev/null) && try "$candidate"
fi

cat >&2 <<'TEXT'
Forebay needs Python 3.12 or newer with venv and pip, and found none that runs. Install one, for example:
    Debian, Ubuntu    apt-get install python3.12 python3.12-venv
    with pyenv        pyenv install 3.13
    with uv           uv python install 3.13
or name one:          FOREBAY_PYTHON=/path/to/python3.13 make install
TEXT
exit 1
