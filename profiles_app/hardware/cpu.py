"""Reads what every host has: cores, memory, the boot, and whose a process is."""

import os
from pathlib import Path

import psutil

from profiles_app.hardware.base import HostReading

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class CpuHardware:
    """A host without accelerators, or the part of any host that isn't one."""

    def read(self) -> HostReading:
        """Cores that this process may use, the host's memory and its boot id."""
        memory = psutil.virtual_memory()
        return HostReading(
            kind="cpu",
            cores=usable_cores(),
            memory_total_bytes=memory.total,
            memory_available_bytes=memory.available,
            boot_id=read_boot_id(),
            devices=(),
            problems=(),
        )


def usable_cores() -> int:
    """Cores that this process may run on, which a container or taskset makes fewer than the host has."""
    return len(os.sched_getaffinity(0))


def read_boot_id(path: Path = _BOOT_ID) -> str | None:
    """The random id of this boot; None where the system has none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None


def owner_and_command(pid: int) -> tuple[str | None, str | None]:
    """User name and command line of a process, as far as this user may see them (a container may hide both)."""
    try:
        process = psutil.Process(pid)
        words = process.cmdline()
        return process.username(), " ".join(words) if words else process.name()
    except (psutil.Error, KeyError):
        # KeyError: a user id without a name.
        return None, None
