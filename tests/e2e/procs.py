"""Looks at processes of this host: whose they are, whether they live, and how many there were at most."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROC = Path("/proc")


def wait_for[T](condition: Callable[[], T], seconds: float, what: str = "") -> T:
    """Poll until the condition is true, and return what it returned; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what or condition}; last: {value!r}")
        time.sleep(0.03)


def repeat(action: Callable[[], object], seconds: float) -> None:
    """Do a thing again and again for so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        action()


def read(pid: int, name: str) -> str:
    """A file of a process with NULs as spaces; empty when it can't be read."""
    try:
        return (PROC / str(pid) / name).read_bytes().decode("utf-8", "replace").replace("\0", " ")
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    stat = read(pid, "stat")
    return bool(stat) and stat[stat.rindex(")") + 2] not in "ZX"


def pids() -> Iterator[int]:
    """Every process number."""
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def using(root: Path) -> dict[int, str]:
    """Living processes that name a data directory in their command or environment: {pid: command}."""
    text = str(root)
    found = {}
    for pid in pids():
        if pid == os.getpid() or not alive(pid):
            continue
        command = read(pid, "cmdline")
        if text in command or text in read(pid, "environ"):
            found[pid] = command
    return found


def engines(root: Path) -> list[int]:
    """API servers of a data directory's engines. Their children, which were forked, show the same command."""
    mine = [pid for pid, command in using(root).items() if "fake_engine.py serve" in command]
    return [pid for pid in mine if parent(pid) not in mine and "shim.py" in read(parent(pid), "cmdline")]


def parent(pid: int) -> int:
    """The parent's number; 0 when the process is gone."""
    stat = read(pid, "stat")
    return int(stat[stat.rindex(")") + 2 :].split()[1]) if stat else 0


def marked(marker: str) -> list[int]:
    """Living processes of one engine, whatever they did to their session; the shim is none."""
    needle = f"FOREBAY_REPLICA_MARKER={marker}"
    return [
        pid
        for pid in pids()
        if needle in (environment := read(pid, "environ")) and "FOREBAY_SHIM=" not in environment and alive(pid)
    ]


class Sampler:
    """Calls a function again and again beside the test, and keeps every different answer."""

    def __init__(self, look: Callable[[], object]) -> None:
        self.seen: list[object] = []
        self._look = look
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._end.wait(0.02):
            answer = self._look()
            if answer not in self.seen:
                self.seen.append(answer)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
