"""Says whether a process is still the one we knew: a pid alone may have been given to a stranger."""

import contextlib
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessId:
    """One process for ever: pid, start time in clock ticks since boot, and the boot it belongs to."""

    pid: int
    started: int
    boot: str

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def boot_id() -> str:
    """The kernel's id of this boot."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> ProcessId | None:
    """The identity of a running process; None when there is none, or only a zombie."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command in brackets may hold spaces and brackets itself: count fields from the last one.
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else ProcessId(pid, int(fields[19]), boot_id())


def known(raw: object) -> ProcessId | None:
    """A ProcessId from a record on disk; None when it is not one."""
    if not isinstance(raw, dict):
        return None
    try:
        return ProcessId(int(raw["pid"]), int(raw["started"]), str(raw["boot"]))
    except (KeyError, TypeError, ValueError):
        return None


def alive(process: ProcessId) -> bool:
    """Whether exactly this process still runs."""
    return identify(process.pid) == process


def signal_group(group: int, number: signal.Signals) -> bool:
    """Send a signal to a process group; False when no process is left in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False
