"""The log of one process, written by that process itself, so that it never depends on us; we bound and follow it."""

import os
import shutil
from pathlib import Path

MAX_BYTES = 10 * 2**20
KEPT = 3


class LogFile:
    """`<folder>/<name>.log` with older parts `.1` (newest) to `.3`."""

    def __init__(self, folder: Path, name: str, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = folder / f"{name}.log"
        self._max_bytes = max_bytes
        self._read_to = self.path.stat().st_size if self.path.exists() else 0
        self._rest = ""

    def open_for_child(self) -> int:
        """A descriptor that appends; the caller closes its own copy."""
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def rotate(self) -> bool:
        """Move the text to `.1` when there is too much of it. The writer appends, so that it goes on at the new start.

        A line written between the copy and the cut is lost: the price of a log that outlives its reader.
        """
        if not self.path.exists() or self.path.stat().st_size <= self._max_bytes:
            return False
        for number in range(KEPT - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            if older.exists():
                older.replace(self.path.with_name(f"{self.path.name}.{number + 1}"))
        shutil.copyfile(self.path, self.path.with_name(f"{self.path.name}.1"))
        os.truncate(self.path, 0)
        self._read_to = 0
        return True

    def new_lines(self) -> list[str]:
        """Whole lines written since the last call, at most 256 KiB of them."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as handle:
            handle.seek(self._read_to)
            chunk = handle.read(256 * 1024)
        self._read_to += len(chunk)
        *lines, self._rest = (self._rest + chunk.decode(errors="replace")).split("\n")
        return lines

    def tail(self, count: int) -> list[str]:
        """The last lines of the file."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as handle:
            handle.seek(max(0, self.path.stat().st_size - 64 * 1024))
            return handle.read().decode(errors="replace").splitlines()[-count:]
