"""Runs pip in a child process and turns its output into progress that a person can follow."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from controlplane.engine.child import Ended, capture, follow

NOISE = re.compile(r"^WARNING: (Location '.*' is ignored|Running pip as)|^\[notice\]|^\s*$|^Looking in ")


def pip_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment with the settings that make pip quiet, unattended and unbuffered."""
    quiet = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PYTHONUNBUFFERED": "1",
    }
    base = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}}
    return {**base, **quiet, **(extra or {})}


def has_pip(python: Path) -> bool:
    """Whether this interpreter can run pip."""
    return pip_version(python) > (0, 0)


def pip_version(python: Path) -> tuple[int, int]:
    """Major and minor version of an interpreter's pip; (0, 0) when it has none."""
    done = capture([python, "-m", "pip", "--version"], env=pip_env())
    match = re.match(r"pip (\d+)\.(\d+)", done.tail[-1]) if done.code == 0 and done.tail else None
    return (int(match[1]), int(match[2])) if match else (0, 0)


def run_pip(python: Path, arguments: Sequence[str], *, on_line: Callable[[str | None], None] | None = None) -> Ended:
    """Run `python -m pip …` to its end; `on_line` gets each line, and None every two seconds of silence."""
    return follow([python, "-m", "pip", *arguments], on_line=on_line, env=pip_env(), drop=_is_noise)


def _is_noise(line: str) -> bool:
    return NOISE.match(line) is not None


class InstallProgress:
    """Follows one `pip install`: which package it fetches, then how much lies on disk."""

    FETCH_SHARE = 0.45

    def __init__(self, *, expected_packages: int, expected_bytes: int, folder: Path) -> None:
        self._expected_packages = expected_packages
        self._expected_bytes = expected_bytes
        self._folder = folder
        self._collected = 0
        self._current = ""
        self._installing = False
        self._within = 0.0

    def feed(self, line: str | None) -> tuple[str, float]:
        """What to show after this line of output (None: silence): a sentence and a fraction that never falls."""
        if line is not None:
            self._read(line)
        if self._installing:
            return self._on_disk()
        done = min(1.0, (self._collected + self._within) / self._expected_packages)
        return f"package {self._collected} of about {self._expected_packages}: {self._current}", done * self.FETCH_SHARE

    def _read(self, line: str) -> None:
        words = line.split()
        if line.startswith("Collecting "):
            self._collected, self._within = self._collected + 1, 0.0
            self._current = re.split(r"[<>=!~;\[ ]", words[1])[0]
        elif line.lstrip().startswith("Downloading ") and "(" in line:
            name = words[1].rsplit("/", 1)[-1].split("-")[0]
            self._current = f"{name} {line[line.rindex('(') :].strip()}"
        elif line.startswith("Progress ") and len(words) >= 4 and int(words[3]):
            self._within = int(words[1]) / int(words[3])
        elif line.startswith("Installing collected packages"):
            self._installing = True

    def _on_disk(self) -> tuple[str, float]:
        size = folder_bytes(self._folder)
        share = min(1.0, size / self._expected_bytes)
        detail = f"unpacking: {size / 2**30:.1f} of about {self._expected_bytes / 2**30:.1f} GiB"
        return detail, self.FETCH_SHARE + (0.99 - self.FETCH_SHARE) * share


def folder_bytes(folder: Path) -> int:
    """Bytes in all files below a folder; files that vanish meanwhile count 0."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(Path(root) / name).st_size
            except OSError:
                continue
    return total
