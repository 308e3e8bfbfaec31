"""The values that cross the door to engine processes, and the Protocol that a runtime keeps."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Identity = Literal["ours", "gone", "not_ours"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One engine process to start: everything that the shim needs, decided beforehand.

    `env` is the whole environment of the engine apart from the names that the runtime adds itself
    (marker, run root, title prefix). `run_dir` belongs to this replica alone; its parent is the run root of
    this installation. A replica is launched at most once in its life.
    """

    replica_id: str
    generation: int
    marker: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    config_yaml: str
    port: int
    run_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The run record that the shim leaves in `run_dir`: what proves later that a process is ours.

    `pid` is the engine's API server. Start times are clock ticks since boot (field 22 of /proc/<pid>/stat), which,
    unlike wall time, don't move when the clock is set. `exit_status` is negative for a signal, None while unknown.
    """

    run_dir: Path
    replica_id: str
    generation: int
    marker: str
    port: int
    argv_sha256: str
    pid: int
    start_ticks: int
    shim_pid: int
    shim_start_ticks: int
    pgid: int
    sid: int
    boot_id: str
    started_at: float
    exit_status: int | None = None
    exited_at: float | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """The engine program is running, and `record` says which process it is."""

    record: Record


@dataclass(frozen=True, slots=True)
class AlreadyLaunched:
    """This replica was launched before, or is being launched now (then there may be no record yet)."""

    record: Record | None


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """No engine program was started; `message` says why, for people."""

    message: str


LaunchOutcome = Launched | AlreadyLaunched | LaunchFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is left of a recorded engine.

    `alive` and `identity` are about the API server; `survivors` are all other live processes of the engine, so that
    a replica is over only when `alive` is false and `survivors` is empty.
    """

    alive: bool
    identity: Identity
    exit_status: int | None
    survivors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PortHolder:
    """The process that listens on a port that we wanted; the name is None where it can't be read."""

    pid: int
    name: str | None


class Runtime(Protocol):
    """How a node starts and ends engine processes. Refusals and findings are values; nothing here blocks for long."""

    def launch(self, launch: Launch) -> LaunchOutcome:
        """Start the engine in its own session, recorded before it runs; refuse a second time for one run_dir."""

    def read_record(self, run_dir: Path) -> Record | None:
        """The record in `run_dir`, or None where there is none. Raises ValueError when it can't be understood."""

    def observe(self, record: Record) -> Observation:
        """Compare the record with the processes of this host."""

    def terminate(self, record: Record) -> bool:
        """Send SIGTERM to the API server, if it is provably ours; says whether it was sent."""

    def kill(self, record: Record) -> tuple[int, ...]:
        """SIGKILL every process that is provably part of this engine, and return their pids."""

    def scan_marked(self, run_root: Path) -> Mapping[str, tuple[int, ...]]:
        """All live engine processes of the installation at `run_root`, as marker to pids."""

    def kill_marked(self, run_root: Path, marker: str) -> tuple[int, ...]:
        """SIGKILL every process with this marker, for engines whose record is lost; return their pids."""
