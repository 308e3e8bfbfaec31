"""One `forebay up` a data directory: a lock that the kernel lets go of when its holder dies, and who holds it."""

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from typing import IO

from controlplane.local.files import read_json
from controlplane.local.identity import ProcessId, alive, identify, known, signal_group
from controlplane.local.paths import DataPaths

GONE_SECONDS = 5.0
POLL_SECONDS = 0.02


class AlreadyRunningError(RuntimeError):
    """Another `forebay up` holds this data directory; the text names it."""


@contextlib.contextmanager
def held(paths: DataPaths) -> Iterator[None]:
    """Hold the directory for as long as the block runs. Raises AlreadyRunningError."""
    with paths.lock.open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = holder(paths)
            name = f"process {who.pid}" if who else "another process"
            raise AlreadyRunningError(
                f"Forebay already runs on {paths.root} ({name}). "
                "Stop it with `forebay down`, or give this one its own --data-dir."
            ) from error
        _sign(handle)
        try:
            yield
        finally:
            handle.truncate(0)


def _sign(handle: IO[str]) -> None:
    own = identify(os.getpid())
    handle.truncate(0)
    handle.write(json.dumps(own.as_dict() if own else {}))
    handle.flush()


def holder(paths: DataPaths) -> ProcessId | None:
    """The process that runs this directory; None when none does."""
    process = known(read_json(paths.lock))
    return process if process is not None and alive(process) else None


def end_strays(paths: DataPaths) -> list[str]:
    """End what a supervisor that was killed left behind, by identity and never by name; returns the names
    once they are gone and their ports are free.

    Engines are not among them: they run in sessions of their own and are adopted by the agent.
    """
    ended: dict[str, ProcessId] = {}
    for row in (read_json(paths.status) or {}).get("processes", []):
        process = known(row)
        if process is not None and alive(process) and signal_group(process.pid, signal.SIGKILL):
            ended[str(row.get("name"))] = process
    deadline = time.monotonic() + GONE_SECONDS
    while any(alive(process) for process in ended.values()) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return list(ended)
