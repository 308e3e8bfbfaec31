"""Starts, watches and ends engine processes of this host, and signals only what is provably ours."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from profiles_app.runtimes import procfs, shim
from profiles_app.runtimes.base import (
    AlreadyLaunched,
    Identity,
    Launch,
    Launched,
    LaunchFailed,
    LaunchOutcome,
    Observation,
    Record,
)
from profiles_app.runtimes.procfs import Process

_LAUNCH_TIMEOUT_SECONDS = 30.0
_KILL_ROUNDS = 20
_EXIT_NOTE_SECONDS = 1.0


def launch(launch: Launch) -> LaunchOutcome:
    """Start the engine under its shim, in its own session, and return once the engine program runs.

    The run record is on disk before the program starts, so a crash of ours at any point leaves either nothing or an
    engine that can be found. A second launch for the same `run_dir` is refused with what the first one left.
    """
    launch.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    launch.run_dir.chmod(0o700)
    if (record := read_record(launch.run_dir)) is not None:
        return AlreadyLaunched(record)
    answer = _ask_shim(launch)
    if isinstance(answer, LaunchFailed):
        return answer
    record = read_record(launch.run_dir)
    if answer["outcome"] == "already":
        return AlreadyLaunched(record)
    if answer["outcome"] == "failed" or record is None:
        return LaunchFailed(answer.get("message", "the engine's run record has vanished"))
    return Launched(record)


def _ask_shim(launch: Launch) -> dict[str, str] | LaunchFailed:
    """Hand the order to a new shim and read its one line of answer."""
    order = {
        "run_dir": str(launch.run_dir),
        "replica_id": launch.replica_id,
        "generation": launch.generation,
        "marker": launch.marker,
        "port": launch.port,
        "argv": list(launch.argv),
        "env": engine_environment(launch),
        "config_yaml": launch.config_yaml,
    }
    # An isolated interpreter: nothing in the engine's or our own environment can reach into the shim. The marker is
    # there for the moment between fork and exec, when the engine is still a copy of the shim.
    command = [sys.executable, "-I", "-S", shim.__file__, launch.replica_id]
    environment = {procfs.MARKER: launch.marker, procfs.SHIM: "1", "PATH": os.environ.get("PATH", os.defpath)}
    complaints = launch.run_dir / "shim.log"
    with complaints.open("ab") as errors:
        complaints.chmod(0o600)
        try:
            done = subprocess.run(  # noqa: S603 - our own script under our own interpreter
                command,
                input=json.dumps(order).encode(),
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=launch.run_dir,
                start_new_session=True,
                timeout=_LAUNCH_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return LaunchFailed(f"the engine's parent process gave no answer in {_LAUNCH_TIMEOUT_SECONDS:.0f} s")
    try:
        answer: dict[str, str] = json.loads(done.stdout)
    except ValueError:
        last = complaints.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        return LaunchFailed(f"the engine's parent process ended without an answer: {last or done.returncode}")
    return answer


def engine_environment(launch: Launch) -> dict[str, str]:
    """The engine's environment: the caller's, and the names by which every process of it is found again.

    vLLM's process titles overwrite the environment of its children unless SPT_NOENV is set, and the marker with it.
    """
    return dict(launch.env) | {
        procfs.MARKER: launch.marker,
        procfs.RUN_ROOT: str(launch.run_dir.parent.resolve()),
        "SPT_NOENV": "1",
        "VLLM_PROCESS_NAME_PREFIX": f"forebay-{launch.replica_id[:8]}",
    }


def read_record(run_dir: Path) -> Record | None:
    """The run record in `run_dir`, or None where there is none. Raises ValueError when it can't be understood."""
    try:
        text = (run_dir / "run.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return Record(run_dir=run_dir, **json.loads(text))
    except TypeError as error:
        raise ValueError(f"{run_dir / 'run.json'} is no run record: {error}") from error


def observe(record: Record) -> Observation:
    """Compare a run record with the processes of this host.

    `gone`: the API server has ended. `not_ours`: its pid now names another process, which nobody may signal.
    """
    identity = _identity(record)
    members = [member.pid for member in _members(record) if member.pid != record.pid]
    return Observation(
        alive=identity == "ours",
        identity=identity,
        exit_status=None if identity == "ours" else _exit_status(record),
        survivors=tuple(members),
    )


def _exit_status(record: Record) -> int | None:
    """How the API server ended, None where nobody knows.

    Between the end of a process and the note that its shim makes of it lies a moment; while the shim lives, it is
    waited for, but not for ever: the shim may be stopped.
    """
    until = time.monotonic() + _EXIT_NOTE_SECONDS
    while True:
        shim_lives = _shim_lives(record)
        status = (read_record(record.run_dir) or record).exit_status
        if status is not None or not shim_lives or time.monotonic() > until:
            return status
        time.sleep(_EXIT_NOTE_SECONDS / 100)


def _shim_lives(record: Record) -> bool:
    seen = procfs.process(record.shim_pid) if record.boot_id == procfs.boot_id() else None
    return seen is not None and seen.alive and seen.start_ticks == record.shim_start_ticks


def terminate(record: Record) -> bool:
    """Send SIGTERM to the API server's pid alone, if that is provably ours; says whether it was sent."""
    return _signal(record.pid, signal.SIGTERM, proof=lambda: _identity(record) == "ours")


def kill(record: Record) -> tuple[int, ...]:
    """SIGKILL every process that is provably part of this engine, and return their pids, in the order found.

    The shim is spared: it reaps them, notes the exit status, and ends when its last child has.
    """
    return _kill_all(lambda: _members(record))


def scan_marked(run_root: Path) -> Mapping[str, tuple[int, ...]]:
    """All live engine processes of the installation at `run_root`, as marker to pids: the orphan scan.

    Other installations on the same host, other users' processes, and the shims themselves are left out.
    """
    found: dict[str, list[int]] = {}
    for marker, member in _marked(run_root):
        found.setdefault(marker, []).append(member.pid)
    return {marker: tuple(pids) for marker, pids in found.items()}


def kill_marked(run_root: Path, marker: str) -> tuple[int, ...]:
    """SIGKILL every process of this installation that carries this marker: for engines whose record is lost."""
    return _kill_all(lambda: (member for found, member in _marked(run_root) if found == marker))


def _identity(record: Record) -> Identity:
    seen = procfs.process(record.pid) if record.boot_id == procfs.boot_id() else None
    if seen is None:
        return "gone"
    if seen.start_ticks != record.start_ticks:
        return "not_ours"
    if not seen.alive:
        return "gone"
    # A process on its way out has no environment left, but the start time still names it.
    if seen.exiting or procfs.environment(record.pid, patient=True).get(procfs.MARKER) == record.marker:
        return "ours"
    return "not_ours"


def _members(record: Record) -> Iterator[Process]:
    """All live processes of a recorded engine, the API server included and the shim excluded.

    By marker, which finds what has left the session; and by session or as descendants of the living shim, which find
    what has lost its environment. A session number can't be given out again while a process is in it, so one marked
    member proves the session even when the shim is dead.
    """
    if record.boot_id != procfs.boot_id():
        return
    everything = {seen.pid: seen for seen in procfs.processes()}
    shim_seen = everything.get(record.shim_pid)
    shim_lives = shim_seen is not None and shim_seen.start_ticks == record.shim_start_ticks
    # What is older than the shim can't come from it; that spares reading the environment of most of the host.
    younger = [
        seen
        for seen in everything.values()
        if seen.alive and seen.pid != record.shim_pid and seen.start_ticks >= record.shim_start_ticks
    ]
    marked = {seen.pid for seen in younger if procfs.environment(seen.pid).get(procfs.MARKER) == record.marker}
    session_proven = shim_lives or any(everything[pid].sid == record.sid for pid in marked)
    for seen in younger:
        in_session = session_proven and seen.sid == record.sid
        if seen.pid in marked or in_session or (shim_lives and _descends(seen, record.shim_pid, everything)):
            yield seen


def _descends(seen: Process, ancestor: int, everything: Mapping[int, Process]) -> bool:
    for _ in everything:
        if seen.ppid == ancestor:
            return True
        parent = everything.get(seen.ppid)
        if parent is None:
            return False
        seen = parent
    return False


def _marked(run_root: Path) -> Iterator[tuple[str, Process]]:
    root = str(run_root.resolve())
    for seen in procfs.processes():
        if not seen.alive or not procfs.is_mine(seen.pid):
            continue
        environment = procfs.environment(seen.pid)
        if environment.get(procfs.RUN_ROOT) == root and procfs.MARKER in environment:
            yield environment[procfs.MARKER], seen


def _kill_all(find: Callable[[], Iterable[Process]]) -> tuple[int, ...]:
    """Kill what `find` finds until it finds nothing new, as a process may fork while its parent is being killed."""
    killed: dict[tuple[int, int], int] = {}
    for _ in range(_KILL_ROUNDS):
        fresh = [seen for seen in find() if (seen.pid, seen.start_ticks) not in killed]
        if not fresh:
            break
        for seen in fresh:
            if _signal(seen.pid, signal.SIGKILL, proof=partial(_still, seen)):
                killed[seen.pid, seen.start_ticks] = seen.pid
    return tuple(killed.values())


def _still(seen: Process) -> bool:
    now = procfs.process(seen.pid)
    return now is not None and now.start_ticks == seen.start_ticks


def _signal(pid: int, number: signal.Signals, *, proof: Callable[[], bool]) -> bool:
    """Signal a process through a descriptor that is opened before the proof, so that the pid can't change hands."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not proof():
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True
