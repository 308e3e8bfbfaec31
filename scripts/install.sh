#!/bin/sh
# Makes .venv from uv.lock. A stamp of the lock makes a second run cheap; what changed is installed, nothing else.
set -eu
cd "$(dirname "$0")/.."

# The folder counts too: console scripts hold its absolute path.
stamp=$( (pwd; cat pyproject.toml uv.lock) | cksum)
if [ -x .venv/bin/forebay ] && [ "$(cat .venv/.forebay-stamp 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

python=$(scripts/find-python.sh)
echo "install: Python $("$python" -c 'import platform; print(platform.python_version())') from $python"
uv=$(scripts/get-uv.sh "$python") || uv=
if [ -n "$uv" ]; then
    echo "install: the locked packages into .venv"
    UV_PROJECT_ENVIRONMENT=.venv "$uv" sync --quiet --frozen --group dev --python "$python"
else
    echo "install: uv cannot be had; pip takes the newest versions that fit instead of the locked ones" >&2
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    .venv/bin/python -m pip install -qq --upgrade pip
    .venv/bin/python -m pip install -qq --editable . --group dev
fi
printf '%s\n' "$stamp" > .venv/.forebay-stamp
echo "install: done"
