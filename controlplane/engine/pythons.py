"""Finds Python interpreters on this host that really run and can make an environment."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from controlplane.engine.child import capture

PROBE = (
    "import sys, venv, ensurepip;"
    "sys.stdout.write('%d.%d %s' % (*sys.version_info[:2], getattr(sys, '_base_executable', sys.executable)))"
)
"""A version manager's shim may exist for a version that is not installed, so that only running it tells."""


def _candidates(version: str, environ: Mapping[str, str]) -> Iterator[Path]:
    on_path = shutil.which(f"python{version}", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path)
    root = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/")) / ".pyenv")
    yield from sorted(root.glob(f"versions/{version}.*/bin/python{version}"), key=_patch, reverse=True)
    for folder in ("/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"):
        yield Path(folder) / f"python{version}"


def _patch(path: Path) -> tuple[int, ...]:
    digits = path.parent.parent.name.split(".")
    return tuple(int(part) if part.isdigit() else -1 for part in digits)


def probe(path: Path) -> tuple[str, Path] | None:
    """`(version, real path)` of an interpreter, for example `("3.12", …)`; None if it does not run or has no venv."""
    done = capture([path, "-c", PROBE], timeout=20)
    version, _, real = (done.tail or ("",))[-1].partition(" ")
    return (version, Path(real)) if done.code == 0 and real else None


def find_pythons(versions: Sequence[str], *, environ: Mapping[str, str] | None = None) -> list[tuple[str, Path]]:
    """The first working interpreter of each wanted version (`"3.12"`), in that order; others are left out."""
    source = os.environ if environ is None else environ
    found = []
    for version in versions:
        for candidate in _candidates(version, source):
            answer = probe(candidate) if candidate.exists() else None
            if answer is not None and answer[0] == version:
                found.append(answer)
                break
    return found
