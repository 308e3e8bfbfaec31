"""The node pass: what is wanted here against what is alive here, and the single next step for each replica."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.db import connections

from profiles_app.models import Replica
from profiles_app.reconciler import steps
from profiles_app.reconciler.diff import Act, Limits, Seen, decide
from profiles_app.reconciler.timings import Timings
from profiles_app.runtimes.base import Observation, Record, Runtime
from profiles_app.selectors.fleet import wanted_on_node
from profiles_app.states import ReplicaPhase

logger = logging.getLogger(__name__)

PARALLEL_STEPS = 8


@dataclass(frozen=True, slots=True)
class Host:
    """This node: its name, its runtime, and the folder that holds a run directory for each replica."""

    name: str
    runtime: Runtime
    run_root: Path
    times: Timings


def run_pass(host: Host, *, now: Callable[[], datetime]) -> None:
    """One pass over every replica placed here, and the orphan scan. A failed read raises and changes nothing."""
    rows = wanted_on_node(host.name)
    if len(rows) == 1:
        _one(host, rows[0], now)
    elif rows:
        with ThreadPoolExecutor(max_workers=min(PARALLEL_STEPS, len(rows))) as pool:
            list(pool.map(lambda row: _threaded(host, row, now), rows))
    end_orphans(host, known=wanted_on_node(host.name))


def _threaded(host: Host, row: Replica, now: Callable[[], datetime]) -> None:
    try:
        _one(host, row, now)
    finally:
        connections.close_all()


def _one(host: Host, row: Replica, now: Callable[[], datetime]) -> None:
    try:
        step(host, row, now=now())
    except Exception:
        logger.exception("node pass failed for replica %s", row.pk)


def step(host: Host, row: Replica, *, now: datetime) -> Act:
    """Decide and take the next step for one replica."""
    record = host.runtime.read_record(host.run_root / str(row.pk))
    observation = host.runtime.observe(record) if record else None
    if record and observation and row.pid != record.pid:
        steps.write_record(row, record, now=now)
    act = decide(_seen(row, record, observation, now=now), limits=_limits(host.times))
    STEPS[act](host, row, record, observation, now)
    return act


def _seen(row: Replica, record: Record | None, observation: Observation | None, *, now: datetime) -> Seen:
    def age(moment: datetime | None) -> float | None:
        return None if moment is None else (now - moment).total_seconds()

    return Seen(
        phase=ReplicaPhase(row.phase),
        wanted=row.wanted,
        recorded=record is not None,
        alive=observation is not None and observation.alive,
        survivors=observation is not None and bool(observation.survivors),
        phase_age=age(row.phase_since) or 0.0,
        drained=bool(row.drain_report.get("drained")),
        past_deadline=age(row.drain_deadline),
        signalled_age=age(row.stop_signalled_at),
    )


def _limits(times: Timings) -> Limits:
    return Limits(
        startup=times.startup,
        launch_grace=times.launch_grace,
        drain_margin=times.drain_margin,
        term_grace=times.term_grace,
    )


def end_orphans(host: Host, *, known: list[Replica]) -> tuple[int, ...]:
    """End processes that carry a marker of this installation but belong to no open replica. Returns their pids.

    ``known`` must come from a read made after the pass, so that a replica launched meanwhile is not taken for one.
    """
    markers = {row.marker for row in known}
    ended: list[int] = []
    for marker, pids in host.runtime.scan_marked(host.run_root).items():
        # The row is written before the process starts, so a marker without an open row has lost its owner for good.
        if marker not in markers and not Replica.objects.filter(Replica.OPEN, marker=marker).exists():
            logger.warning("ending orphans of marker %s: %s", marker[:8], pids)
            ended.extend(host.runtime.kill_marked(host.run_root, marker))
    return tuple(ended)


Step = Callable[[Host, Replica, Record | None, Observation | None, datetime], None]
STEPS: Mapping[Act, Step] = {
    Act.NOTHING: steps.nothing,
    Act.LAUNCH: steps.launch,
    Act.ADOPT: steps.adopt,
    Act.CANCEL: steps.cancel,
    Act.WATCH_START: steps.watch_start,
    Act.CHECK: steps.check,
    Act.DRAIN: steps.drain,
    Act.STOP_NOW: steps.stop_now,
    Act.WAIT_DRAIN: steps.nothing,
    Act.SIGNAL: steps.signal,
    Act.KILL: steps.kill,
    Act.CLOSE_STOPPED: steps.close_stopped,
    Act.CLOSE_FAILED: steps.close_failed,
    Act.CLEAR_SURVIVORS: steps.clear_survivors,
    Act.TIME_OUT: steps.time_out,
    Act.LOST: steps.lost,
}
