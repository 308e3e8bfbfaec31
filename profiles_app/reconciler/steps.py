"""The steps of the node pass. Each records first, then acts, so that dying in between costs one replica, never two."""

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from profiles_app.models import EngineInstall, Replica
from profiles_app.reconciler.timings import Timings
from profiles_app.runtimes import failures, vllm
from profiles_app.runtimes.base import AlreadyLaunched, Launch, Launched, LaunchFailed, Observation, Record, Runtime
from profiles_app.runtimes.logs import read_tail
from profiles_app.runtimes.ports import port_holder, port_is_free
from profiles_app.runtimes.progress import read_progress
from profiles_app.selectors.profiles import spec_of
from profiles_app.services import replicas as write
from profiles_app.specs.engine_args import Endpoint, EngineCommand, engine_command
from profiles_app.states import Reason, ReplicaPhase

logger = logging.getLogger(__name__)
P = ReplicaPhase

# What an engine inherits of the agent's environment: nothing that steers Python, and no secret of the control plane.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME")


class Host(Protocol):
    """What a step needs of the node."""

    @property
    def runtime(self) -> Runtime: ...

    @property
    def run_root(self) -> Path: ...

    @property
    def times(self) -> Timings: ...


def run_dir(host: Host, row: Replica) -> Path:
    """The replica's own folder."""
    return host.run_root / str(row.pk)


def nothing(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """Wait: the next pass looks again."""


def cancel(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """End a replica that was never launched."""
    reason = Reason(row.unwanted_reason or Reason.SCALED_DOWN)
    write.replica_move(row, old=P.PENDING, new=P.STOPPED, reason=reason, message="Ended before its start.", now=now)


def adopt(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """Take over an engine that was launched before, as its record says; the next pass goes on from there."""
    message = "An engine of this replica was found; it is taken over."
    write.replica_move(row, old=P.PENDING, new=P.STARTING, reason=Reason.ADOPTED, message=message, now=now)


def launch(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """Record the start, then start the engine."""
    engine, port = row.engine, row.port
    if engine is None or port is None:
        write.replica_move(
            row,
            old=P.PENDING,
            new=P.FAILED,
            reason=Reason.ENGINE_MISSING,
            message="The engine install was removed before the start.",
            now=now,
        )
        return
    if not port_is_free(port):
        holder = port_holder(port)
        who = f" by pid {holder.pid} ({holder.name or 'name unknown'})" if holder else ""
        write.replica_move(
            row,
            old=P.PENDING,
            new=P.FAILED,
            reason=Reason.PORT_TAKEN,
            message=f"Port {port} is in use{who}. Another port is tried.",
            now=now,
        )
        return
    message = f"Starting {engine.name} {engine.version} on port {port}."
    if write.replica_move(row, old=P.PENDING, new=P.STARTING, reason=Reason.LAUNCHED, message=message, now=now):
        _start_process(host, row, engine, port, now=now)


def _start_process(host: Host, row: Replica, engine: EngineInstall, port: int, *, now: datetime) -> None:
    folder = run_dir(host, row)
    command = command_of(row, port=port, config_path=str(folder / "config.yaml"))
    outcome = host.runtime.launch(
        Launch(
            replica_id=str(row.pk),
            generation=row.generation,
            marker=row.marker,
            argv=(*engine.argv_prefix, *command.argv),
            env=_environment(engine.env, command.env, api_key=row.api_key),
            config_yaml=command.config_yaml,
            port=port,
            run_dir=folder,
        )
    )
    match outcome:
        case Launched(record) | AlreadyLaunched(Record() as record):
            write_record(row, record, now=now)
        case AlreadyLaunched():
            logger.warning("replica %s was being launched already", row.pk)
        case LaunchFailed(message):
            write.replica_move(
                row, old=P.STARTING, new=P.FAILED, reason=Reason.STARTUP_FAILED, message=message, now=now
            )


def command_of(row: Replica, *, port: int, config_path: str) -> EngineCommand:
    """The engine's command for this replica."""
    return engine_command(
        spec_of(row.revision),
        model_source=row.revision.model_version.source,
        endpoint=Endpoint("127.0.0.1", port, row.deployment.profile.name, str(row.pk)),
        config_path=config_path,
        gpu_uuids=tuple(row.claim.get("gpu_uuids", ())),
    )


def _environment(install: Mapping[str, str], command: Mapping[str, str], *, api_key: str) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return inherited | dict(install) | dict(command) | {"VLLM_API_KEY": api_key}


def write_record(row: Replica, record: Record, *, now: datetime) -> None:
    """Keep the run record in the database beside the file."""
    data: dict[str, Any] = asdict(record) | {"run_dir": str(record.run_dir)}
    write.replica_observed(row, now=now, pid=record.pid, record=data)
    row.pid = record.pid


def watch_start(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """Read how far the start is, and prove readiness once the engine answers."""
    progress = read_progress(log_tail(host, row))
    proof = probe(host, row, want_token=True)
    strange = int(row.progress.get("strange", 0)) + 1 if proof.identity is False else 0
    write.replica_observed(
        row, now=now, progress=asdict(progress) | {"strange": strange}, message=progress.detail or row.message
    )
    if strange >= host.times.liveness_failures:
        _fail_start(host, row, record, Reason.IDENTITY_MISMATCH, _stranger(row, proof.detail), now=now)
    elif proof.ready and proof.token:
        write.replica_move(
            row,
            old=P.STARTING,
            new=P.READY,
            reason=Reason.PROVEN,
            now=now,
            ready_at=now,
            message="Our process answers, lists its own name, and generated a token.",
        )


def _stranger(row: Replica, detail: str) -> str:
    holder = port_holder(row.port or 0)
    who = f" Port {row.port} is in use by pid {holder.pid} ({holder.name or 'name unknown'})." if holder else ""
    return f"What answers is not this replica: {detail}.{who}"


def probe(host: Host, row: Replica, *, want_token: bool) -> vllm.ProbeResult:
    """Ask the engine who and how it is."""
    return vllm.probe(
        base_url=f"http://127.0.0.1:{row.port}",
        api_key=row.api_key,
        served_name=row.deployment.profile.name,
        identity_name=str(row.pk),
        want_token=want_token,
        timeout=host.times.probe_timeout,
    )


def _fail_start(
    host: Host, row: Replica, record: Record | None, reason: Reason, message: str, *, now: datetime, fix: str = ""
) -> None:
    if record:
        host.runtime.kill(record)
    write.replica_move(row, old=P.STARTING, new=P.FAILED, reason=reason, message=message, now=now, fix=fix)


def time_out(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """Give up a start that took too long."""
    stage = row.progress.get("phase") or "unknown"
    message = f"Not ready after {host.times.startup:.0f} s; it stood at: {stage}."
    _fail_start(host, row, record, Reason.STARTUP_TIMEOUT, message, now=now, fix="Read the log for what it waits for.")


def check(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """Ask a serving engine whether it lives and is still ours; a busy one that answers late is not ended."""
    proof = probe(host, row, want_token=False)
    good = proof.health and proof.identity is not False
    misses = 0 if good else int(row.progress.get("misses", 0)) + 1
    write.replica_observed(row, now=now, progress=row.progress | {"misses": misses})
    if not good and row.phase == P.READY and misses >= host.times.liveness_failures:
        write.replica_move(
            row, old=P.READY, new=P.NOT_READY, reason=Reason.READINESS_FAILED, message=proof.detail, now=now
        )
    elif good and row.phase == P.NOT_READY:
        write.replica_move(
            row, old=P.NOT_READY, new=P.READY, reason=Reason.PROVEN, message="It answers again.", now=now
        )


def drain(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """Take the replica out of the routing table; its requests finish until the deadline."""
    reason = Reason(row.unwanted_reason or Reason.SCALED_DOWN)
    write.replica_drain(row, reason=reason, message="No new requests; waiting for those in flight.", now=now)


def stop_now(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """End a start: SIGKILL, since a TERM while loading is swallowed."""
    if record:
        host.runtime.kill(record)
        if _leftovers(host, record):
            return
    reason = Reason(row.unwanted_reason or Reason.SCALED_DOWN)
    write.replica_move(row, old=P.STARTING, new=P.STOPPED, reason=reason, message="Ended while starting.", now=now)


def _leftovers(host: Host, record: Record) -> bool:
    left = host.runtime.observe(record)
    return left.alive or bool(left.survivors)


def signal(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """Nothing is in flight, or the deadline has passed: SIGTERM to the API server alone."""
    if record and write.stop_signalled(row, now=now):
        host.runtime.terminate(record)


def kill(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """The engine did not end within its grace: SIGKILL to all that is ours. The next pass closes the replica."""
    if record:
        host.runtime.kill(record)


def clear_survivors(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """The API server is gone, but its children hold on: end them before anything is written."""
    if record:
        pids = host.runtime.kill(record)
        logger.warning("replica %s: ended %s processes that outlived its API server", row.pk, len(pids))


def close_stopped(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """No process of it lives: the drain is over. Without a record only the marker can prove that."""
    if record is None and host.runtime.kill_marked(host.run_root, row.marker):
        return
    report = row.drain_report
    cut = int(report.get("cut", 0))
    done = int(report.get("completed", 0))
    message = f"Stopped. {done} {'request' if done == 1 else 'requests'} completed during the drain, {cut} cut."
    reason = Reason.DRAIN_DEADLINE if cut else Reason.DRAINED
    write.replica_move(
        row,
        old=P.DRAINING,
        new=P.STOPPED,
        reason=reason,
        message=message,
        now=now,
        exit_status=seen.exit_status if seen else None,
    )


def close_failed(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """The process ended by itself: say why, in words."""
    status = seen.exit_status if seen else None
    if seen and seen.identity == "not_ours":
        reason: str = Reason.PROCESS_LOST
        message, fix = "The process is gone; its pid now names another process, which was left alone.", ""
    else:
        failure = failures.explain(log_tail(host, row), status)
        reason, message, fix = Reason.PROCESS_EXITED, failure.message, failure.fix
        if row.phase == P.STARTING:
            reason = Reason.STARTUP_FAILED
        if failure.reason not in ("Unknown", ""):
            message = f"{failure.reason}: {message}"
    write.replica_move(
        row,
        old=P(row.phase),
        new=P.FAILED,
        reason=Reason(reason),
        message=message,
        now=now,
        fix=fix,
        exit_status=status,
    )


def lost(host: Host, row: Replica, record: Record | None, seen: Observation | None, now: datetime) -> None:
    """A start was recorded, but no process of it was ever found."""
    ended = host.runtime.kill_marked(host.run_root, row.marker)
    message = "No process of it was found." + (f" {len(ended)} marked processes were ended." if ended else "")
    write.replica_move(row, old=P(row.phase), new=P.FAILED, reason=Reason.PROCESS_LOST, message=message, now=now)


def log_tail(host: Host, row: Replica) -> str:
    """The end of the engine's log; empty where there is none."""
    return read_tail(run_dir(host, row) / "engine.log")
