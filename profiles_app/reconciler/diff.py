"""What one replica needs next, decided from what is wanted and what was seen. Pure: the passes act on the answer."""

from dataclasses import dataclass
from enum import StrEnum

from profiles_app.states import ReplicaPhase as P


class Act(StrEnum):
    """The single next step of a node pass for one replica."""

    NOTHING = "nothing"
    LAUNCH = "launch"
    ADOPT = "adopt"
    CANCEL = "cancel"
    WATCH_START = "watch_start"
    CHECK = "check"
    DRAIN = "drain"
    STOP_NOW = "stop_now"
    WAIT_DRAIN = "wait_drain"
    SIGNAL = "signal"
    KILL = "kill"
    CLOSE_STOPPED = "close_stopped"
    CLOSE_FAILED = "close_failed"
    CLEAR_SURVIVORS = "clear_survivors"
    TIME_OUT = "time_out"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One replica as the pass sees it. Ages and times are seconds; None where a thing has not happened.

    ``recorded``: a run record exists. ``alive``, ``survivors``: of the recorded process and its descendants.
    """

    phase: P
    wanted: bool
    recorded: bool
    alive: bool = False
    survivors: bool = False
    phase_age: float = 0.0
    drained: bool = False
    past_deadline: float | None = None
    signalled_age: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that a pass holds replicas to, in seconds."""

    startup: float
    launch_grace: float
    drain_margin: float
    term_grace: float


def decide(seen: Seen, *, limits: Limits) -> Act:
    """The next step for one open replica. Deciding again without a change gives the same step."""
    if seen.phase is P.PENDING:
        return _pending(seen)
    if seen.phase is P.DRAINING:
        return _draining(seen, limits)
    if not seen.recorded:
        return Act.LOST if seen.phase_age > limits.launch_grace or seen.phase is not P.STARTING else Act.NOTHING
    if not seen.alive:
        return Act.CLEAR_SURVIVORS if seen.survivors else Act.CLOSE_FAILED
    if seen.phase is P.STARTING:
        return _starting(seen, limits)
    return Act.CHECK if seen.wanted else Act.DRAIN


def _pending(seen: Seen) -> Act:
    # A record without a recorded start: the database came back older than the process. It is never launched again.
    if seen.recorded:
        return Act.ADOPT
    return Act.LAUNCH if seen.wanted else Act.CANCEL


def _starting(seen: Seen, limits: Limits) -> Act:
    if not seen.wanted:
        return Act.STOP_NOW
    return Act.TIME_OUT if seen.phase_age > limits.startup else Act.WATCH_START


def _draining(seen: Seen, limits: Limits) -> Act:
    if not seen.alive:
        return Act.CLEAR_SURVIVORS if seen.survivors else Act.CLOSE_STOPPED
    if seen.signalled_age is not None:
        return Act.KILL if seen.signalled_age > limits.term_grace else Act.NOTHING
    overdue = seen.past_deadline is not None and seen.past_deadline > limits.drain_margin
    return Act.SIGNAL if seen.drained or overdue else Act.WAIT_DRAIN


def backoff_seconds(failures: int, *, first: float, cap: float) -> float:
    """Wait before the next start after ``failures`` failed ones: doubling from ``first``, at most ``cap``."""
    return 0.0 if failures == 0 else min(cap, first * 2 ** min(failures - 1, 30))
