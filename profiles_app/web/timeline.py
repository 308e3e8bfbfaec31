"""The timeline of a deployment: each move of its replicas as a bar on one shared time axis. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

PHASE_STEPS = {
    "pending": "Find a place",
    "starting": "Start the engine",
    "ready": "Serve",
    "not_ready": "Not answering",
    "draining": "Drain",
    "stopped": "Stopped",
    "failed": "Failed",
}
TERMINAL = frozenset({"stopped", "failed"})
MOST_STEPS = 30


class Move(Protocol):
    """What the timeline needs of a Transition row."""

    @property
    def at(self) -> datetime: ...
    @property
    def new(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One bar. ``x`` and ``width`` are percent of the axis, as SVG attributes; ``usual_width`` is a prediction."""

    who: str
    title: str
    state: str
    reason: str
    message: str
    at: datetime
    seconds: float
    x: str
    width: str
    usual_width: str
    usual_seconds: float | None
    current: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """Steps in order of time on an axis of ``span`` seconds from ``start``.

    ``now_x`` is where now stands on it, in percent; empty when everything on it has ended.
    """

    steps: tuple[Step, ...]
    start: datetime | None
    span: float
    now_x: str
    dropped: int


def timeline(
    histories: Sequence[tuple[str, Sequence[Move]]], *, now: datetime, usual_start: float | None = None
) -> Timeline:
    """Lay out ``histories``, pairs of (replica's name, its moves in order of time), up to now.

    ``usual_start`` is how many seconds the starting phase usually takes; it makes the axis longer if it must.
    """
    flat = [
        (who, move, moves[place + 1] if place + 1 < len(moves) else None)
        for who, moves in histories
        for place, move in enumerate(moves)
    ]
    flat.sort(key=lambda row: row[1].at)
    kept = flat[-MOST_STEPS:]
    if not kept:
        return Timeline((), None, 0.0, "", 0)
    start = kept[0][1].at
    ends = [_end(move, after, now=now) for _, move, after in kept]
    span = max((max(ends) - start).total_seconds(), 1.0)
    if usual_start and kept[-1][1].new == "starting":
        span = max(span, (kept[-1][1].at - start).total_seconds() + usual_start)
    steps = tuple(
        _step(who, move, after, start=start, span=span, now=now, usual=usual_start) for who, move, after in kept
    )
    here = f"{(now - start).total_seconds() / span * 100:.2f}%" if any(step.current for step in steps) else ""
    return Timeline(steps, start, span, here, len(flat) - len(kept))


def _end(move: Move, after: Move | None, *, now: datetime) -> datetime:
    if after is not None:
        return after.at
    return move.at if move.new in TERMINAL else now


def _step(
    who: str, move: Move, after: Move | None, *, start: datetime, span: float, now: datetime, usual: float | None
) -> Step:
    seconds = max(0.0, (_end(move, after, now=now) - move.at).total_seconds())
    usual_here = usual if move.new == "starting" else None
    return Step(
        who=who,
        title=PHASE_STEPS.get(move.new, move.new),
        state=_state(move, after),
        reason=move.reason,
        message=move.message,
        at=move.at,
        seconds=seconds,
        x=f"{(move.at - start).total_seconds() / span * 100:.2f}%",
        width=f"{max(0.4, seconds / span * 100):.2f}%",
        usual_width=f"{usual_here / span * 100:.2f}%" if usual_here else "",
        usual_seconds=usual_here,
        current=after is None and move.new not in TERMINAL,
    )


def _state(move: Move, after: Move | None) -> str:
    """A step that ended is done, or failed where the next one says so."""
    if after is None:
        return move.new
    return "failed" if after.new == "failed" else "done"
