#!/bin/sh
# Prints the path of uv: the one on PATH, else one of our own in .uv/, made with the Python given as first argument.
set -eu
python=$1

if command -v uv >/dev/null 2>&1; then
    command -v uv
    exit 0
fi
if [ ! -x .uv/bin/uv ] || ! .uv/bin/uv --version >/dev/null 2>&1; then
    echo "install: fetching uv into .uv" >&2
    rm -rf .uv
    "$python" -m venv .uv >&2
    .uv/bin/python -m pip install -qq --disable-pip-version-check uv >&2
fi
echo "$PWD/.uv/bin/uv"
