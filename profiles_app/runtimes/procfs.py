"""Reads /proc: which processes live on this host, what they carry in their environment, and who they really are."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from profiles_app.runtimes import shim

MARKER = "FOREBAY_REPLICA_MARKER"
RUN_ROOT = "FOREBAY_RUN_ROOT"
SHIM = "FOREBAY_SHIM"

_PROC = Path("/proc")
_PF_EXITING = 0x4
_ENVIRON_TRIES = 5
_ENVIRON_PAUSE_SECONDS = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process as /proc/<pid>/stat shows it. `start_ticks` and `pid` together name it for this boot."""

    pid: int
    ppid: int
    pgid: int
    sid: int
    start_ticks: int
    state: str
    exiting: bool

    @property
    def alive(self) -> bool:
        """False for what has ended and only waits for its parent; a pid 1 that never reaps keeps such for ever."""
        return self.state not in "ZX"


def boot_id() -> str:
    """The random id of this boot of the host."""
    return shim.boot_id()


def process(pid: int) -> Process | None:
    """The process with this pid, alive or zombie; None when there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name is in parentheses and may hold anything, so count the fields from the last one.
    fields = text.rpartition(")")[2].split()
    return Process(
        pid=pid,
        state=fields[0],
        ppid=int(fields[1]),
        pgid=int(fields[2]),
        sid=int(fields[3]),
        exiting=bool(int(fields[6]) & _PF_EXITING),
        start_ticks=int(fields[19]),
    )


def processes() -> Iterator[Process]:
    """Every process of this host that could be read while walking /proc."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (found := process(int(entry.name))) is not None:
            yield found


def environment(pid: int, *, patient: bool = False) -> Mapping[str, str]:
    """The environment that a process was started with; empty when it is gone, foreign, or has wiped it.

    It also reads as empty for a moment while the process turns into another program; `patient` waits for that moment
    to pass (some milliseconds, and in vain for a process that really has none).
    """
    for _ in range(_ENVIRON_TRIES if patient else 1):
        try:
            data = (_PROC / str(pid) / "environ").read_bytes()
        except OSError:
            return {}
        if data:
            return dict(_pairs(data))
        if patient:
            time.sleep(_ENVIRON_PAUSE_SECONDS)
    return {}


def _pairs(data: bytes) -> Iterator[tuple[str, str]]:
    for item in data.decode("utf-8", "surrogateescape").split("\0"):
        name, separator, value = item.partition("=")
        if separator:
            yield name, value


def is_mine(pid: int) -> bool:
    """Whether the process runs as this user."""
    try:
        return (_PROC / str(pid)).stat().st_uid == os.geteuid()
    except OSError:
        return False
