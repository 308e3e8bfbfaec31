"""Starts, watches, restarts and stops the processes of one machine (decision 0003 says why it is our own)."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from controlplane.local.files import write_json
from controlplane.local.identity import ProcessId, identify, signal_group
from controlplane.local.logfile import LogFile

State = Literal["waiting", "starting", "running", "backing off", "stopping", "stopped", "done", "failed"]

CLEAN_EXITS = frozenset({0, 143, -signal.SIGTERM})
"""A server that was asked to stop may report the signal as its exit code."""

FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 30.0
GOOD_RUN_SECONDS = 60.0
STATUS_PERIOD_SECONDS = 5.0
POLL_SECONDS = 0.1
KILL_WAIT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """One process to keep alive. `ready` gets its pid; `quit_seconds` adds SIGQUIT between TERM and KILL."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    ready: Callable[[int], Awaitable[bool]] | None = None
    ready_seconds: float = 60.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    quit_seconds: float = 0.0
    start_after: tuple[str, ...] = ()
    restart: bool = True


@dataclass
class Backoff:
    """How long to wait before the next start: doubles up to a cap, and starts again after a good run."""

    scale: float
    _next: float = FIRST_BACKOFF_SECONDS

    def after(self, ran_seconds: float) -> float:
        """Seconds to wait after a run of this length."""
        if ran_seconds >= GOOD_RUN_SECONDS * self.scale:
            self._next = FIRST_BACKOFF_SECONDS
        delay = self._next * self.scale
        self._next = min(MAX_BACKOFF_SECONDS, self._next * 2)
        return delay


class Child:
    """One supervised process: what is known of it now, and the events that others wait for."""

    def __init__(self, spec: ProcessSpec, *, log: LogFile, backoff: Backoff) -> None:
        self.spec = spec
        self.log = log
        self.backoff = backoff
        self.state: State = "waiting"
        self.since = time.time()
        self.restarts = 0
        self.last_exit: dict[str, Any] | None = None
        self.process: asyncio.subprocess.Process | None = None
        self.identity: ProcessId | None = None
        self.ready = asyncio.Event()
        self.stop_wanted = asyncio.Event()
        self.keeper: asyncio.Task[None] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The row of status.json."""
        running = self.identity.as_dict() if self.identity else {"pid": None, "started": None, "boot": None}
        return {
            "name": self.spec.name,
            **running,
            "state": self.state,
            "since": self.since,
            "restarts": self.restarts,
            "last_exit": self.last_exit,
        }


class Supervisor:
    """Keeps a set of processes. `facts` is what status.json says beside them; `echo(name, line)` gets their output."""

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        *,
        log_dir: Path,
        status_path: Path,
        time_scale: float = 1.0,
        facts: Callable[[], Mapping[str, Any]] = dict,
        echo: Callable[[str, str], None] | None = None,
    ) -> None:
        self._scale = time_scale
        self._status_path = status_path
        self._facts = facts
        self._echo = echo
        self._children = {
            spec.name: Child(spec, log=LogFile(log_dir, spec.name), backoff=Backoff(time_scale)) for spec in specs
        }
        self._reporter: asyncio.Task[None] | None = None

    def start(self, names: Sequence[str]) -> None:
        """Begin to keep these processes; each waits until those it starts after were ready once."""
        if self._reporter is None:
            self._reporter = asyncio.create_task(self._report_for_ever())
        for name in names:
            child = self._children[name]
            if child.keeper is None:
                child.keeper = asyncio.create_task(self._keep(child), name=f"keep {name}")

    async def wait_ready(self, names: Sequence[str], *, seconds: float) -> list[str]:
        """Wait until all of these were ready once; returns the names that were not in time."""
        waits = [asyncio.wait_for(self._children[name].ready.wait(), seconds) for name in names]
        results = await asyncio.gather(*waits, return_exceptions=True)
        return [name for name, result in zip(names, results, strict=True) if isinstance(result, BaseException)]

    async def stop(self, order: Sequence[str]) -> None:
        """Stop these one after another, each for certain; those that never started are passed over."""
        for name in order:
            await self._stop(self._children[name])

    async def close(self) -> None:
        """Stop what is left, all at once, and write the last status."""
        await asyncio.gather(*(self._stop(child) for child in self._children.values()))
        if self._reporter is not None:
            self._reporter.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reporter
        self._follow()
        self.write_status()

    def processes(self) -> list[dict[str, Any]]:
        """One row a process, in the order of their specs."""
        return [child.as_dict() for child in self._children.values()]

    def tail(self, name: str, count: int = 15) -> list[str]:
        """The last lines of a process's log."""
        return self._children[name].log.tail(count)

    def write_status(self) -> None:
        """Replace status.json with what is known now."""
        write_json(self._status_path, {"schema": 1, "at": time.time(), **self._facts(), "processes": self.processes()})

    async def _keep(self, child: Child) -> None:
        for name in child.spec.start_after:
            await self._children[name].ready.wait()
        while not child.stop_wanted.is_set():
            began = time.monotonic()
            code = await self._run_once(child)
            if child.stop_wanted.is_set():
                break
            if not child.spec.restart:
                self._move(child, "done" if code == 0 else "failed")
                return
            self._move(child, "backing off")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.stop_wanted.wait(), child.backoff.after(time.monotonic() - began))
            child.restarts += 1
        self._move(child, "stopped")

    async def _run_once(self, child: Child) -> int:
        try:
            process = await self._spawn(child)
        except OSError as error:
            child.last_exit = {"code": 127, "clean": False, "at": time.time(), "message": str(error)}
            return 127
        watcher = asyncio.create_task(self._watch_start(child, process.pid))
        try:
            code = await process.wait()
        finally:
            watcher.cancel()
            # What it left behind in its group would hold its port and its locks.
            signal_group(process.pid, signal.SIGKILL)
            child.process = child.identity = None
        clean = code in CLEAN_EXITS
        child.last_exit = {"code": code, "clean": clean, "at": time.time(), "message": None}
        return code

    async def _spawn(self, child: Child) -> asyncio.subprocess.Process:
        spec = child.spec
        output = child.log.open_for_child()
        try:
            child.process = await asyncio.create_subprocess_exec(
                *spec.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **spec.env},
                cwd=spec.cwd,
                # Its own session: a Ctrl-C on the terminal must reach us alone, or nothing stops in order.
                start_new_session=True,
            )
        finally:
            os.close(output)
        child.identity = identify(child.process.pid)
        self._move(child, "starting")
        return child.process

    async def _watch_start(self, child: Child, pid: int) -> None:
        deadline = time.monotonic() + child.spec.ready_seconds
        while child.spec.ready is not None and not await child.spec.ready(pid):
            if time.monotonic() > deadline:
                signal_group(pid, signal.SIGKILL)
                return
            await asyncio.sleep(POLL_SECONDS)
        child.ready.set()
        if child.state == "starting":
            self._move(child, "running")

    async def _stop(self, child: Child) -> None:
        child.stop_wanted.set()
        if child.keeper is None or child.keeper.done():
            return
        if child.process is None:
            child.keeper.cancel()
        else:
            self._move(child, "stopping")
            await self._end(child, child.process)
        with contextlib.suppress(asyncio.CancelledError):
            await child.keeper
        self._move(child, "stopped")

    async def _end(self, child: Child, process: asyncio.subprocess.Process) -> None:
        spec = child.spec
        for number, seconds in ((spec.stop_signal, spec.stop_seconds), (signal.SIGQUIT, spec.quit_seconds)):
            if seconds <= 0 or process.returncode is not None:
                continue
            # Only the leader: a worker's own children must be ended by the worker.
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), seconds)
        if process.returncode is None:
            signal_group(process.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), KILL_WAIT_SECONDS)

    def _move(self, child: Child, state: State) -> None:
        if child.state != state:
            child.state, child.since = state, time.time()
            self.write_status()

    async def _report_for_ever(self) -> None:
        written = 0.0
        while True:
            self._follow()
            if time.monotonic() - written >= STATUS_PERIOD_SECONDS * self._scale:
                written = time.monotonic()
                for child in self._children.values():
                    child.log.rotate()
                self.write_status()
            await asyncio.sleep(min(0.5, STATUS_PERIOD_SECONDS * self._scale))

    def _follow(self) -> None:
        if self._echo is None:
            return
        for child in self._children.values():
            for line in child.log.new_lines():
                self._echo(child.spec.name, line)
