"""The next step of a replica, over everything that a node pass can see."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles_app.reconciler.diff import Act, Limits, Seen, backoff_seconds, decide
from profiles_app.states import TERMINAL, TRANSITIONS
from profiles_app.states import ReplicaPhase as P

LIMITS = Limits(startup=540.0, launch_grace=40.0, drain_margin=2.0, term_grace=15.0)
OPEN = [phase for phase in P if phase not in TERMINAL]
SERVING = (P.READY, P.NOT_READY)
CLOSING = {Act.CLOSE_STOPPED, Act.CLOSE_FAILED, Act.CANCEL, Act.LOST}
AGES = (0.0, 2.0, 2.1, 40.0, 41.0, 540.0, 541.0)


def everything() -> Iterator[Seen]:
    """Every combination that a pass can meet, ages at and around their limits included."""
    booleans = (True, False)
    for phase, wanted, recorded, alive, survivors in product(OPEN, booleans, booleans, booleans, booleans):
        seen = Seen(phase=phase, wanted=wanted, recorded=recorded, alive=alive, survivors=survivors)
        for age, drained, past, signalled in product(AGES, booleans, (None, -1.0, *AGES), (None, *AGES)):
            yield replace(seen, phase_age=age, drained=drained, past_deadline=past, signalled_age=signalled)


ALL = [(seen, decide(seen, limits=LIMITS)) for seen in everything()]


def act(phase: P, **changes: Any) -> Act:
    """The step for a live, recorded, wanted replica with ``changes``."""
    base = Seen(phase=phase, wanted=True, recorded=True, alive=True)
    return decide(replace(base, **changes), limits=LIMITS)


def test_nothing_that_has_a_record_is_launched() -> None:
    launched = [seen for seen, step in ALL if step is Act.LAUNCH]
    assert launched
    assert not any(seen.recorded for seen in launched)
    assert all(seen.phase is P.PENDING and seen.wanted for seen in launched)


def test_a_draining_replica_is_never_closed_while_a_process_of_it_lives() -> None:
    for seen, step in ALL:
        if seen.phase is P.DRAINING and (seen.alive or seen.survivors):
            assert step not in CLOSING


def test_no_replica_with_a_recorded_living_process_is_closed() -> None:
    for seen, step in ALL:
        if seen.recorded and (seen.alive or seen.survivors):
            assert step not in CLOSING


def test_a_process_is_signalled_only_when_it_drains_and_only_once() -> None:
    for seen, step in ALL:
        if step is Act.SIGNAL:
            assert seen.phase is P.DRAINING
            assert seen.signalled_age is None
            assert seen.drained or (seen.past_deadline or 0.0) > LIMITS.drain_margin


def test_a_serving_process_is_ended_only_by_way_of_a_drain() -> None:
    ending = {Act.STOP_NOW, Act.KILL, Act.SIGNAL, Act.TIME_OUT}
    for seen, step in ALL:
        if seen.phase in SERVING:
            assert step not in ending
        if step is Act.DRAIN:
            assert seen.phase in SERVING
            assert not seen.wanted


def test_a_wanted_replica_whose_process_lives_is_left_alone_or_watched() -> None:
    for seen, step in ALL:
        if seen.wanted and seen.recorded and seen.alive and seen.phase in SERVING:
            assert step is Act.CHECK


def test_every_step_that_ends_a_phase_has_an_arrow_in_the_machine() -> None:
    arrows = {
        Act.LAUNCH: P.STARTING,
        Act.ADOPT: P.STARTING,
        Act.CANCEL: P.STOPPED,
        Act.DRAIN: P.DRAINING,
        Act.STOP_NOW: P.STOPPED,
        Act.CLOSE_STOPPED: P.STOPPED,
        Act.CLOSE_FAILED: P.FAILED,
        Act.TIME_OUT: P.FAILED,
        Act.LOST: P.FAILED,
    }
    for seen, step in ALL:
        if step in arrows:
            assert arrows[step] in TRANSITIONS[seen.phase], (seen, step)


def test_every_step_is_reached() -> None:
    assert {step for _, step in ALL} == set(Act)


@pytest.mark.parametrize(
    ("phase", "changes", "step"),
    [
        (P.PENDING, {"recorded": False}, Act.LAUNCH),
        (P.PENDING, {"recorded": False, "wanted": False}, Act.CANCEL),
        (P.PENDING, {}, Act.ADOPT),
        (P.PENDING, {"wanted": False}, Act.ADOPT),
        (P.STARTING, {"recorded": False, "phase_age": 40.0}, Act.NOTHING),
        (P.STARTING, {"recorded": False, "phase_age": 40.1}, Act.LOST),
        (P.READY, {"recorded": False}, Act.LOST),
        (P.STARTING, {"phase_age": 540.0}, Act.WATCH_START),
        (P.STARTING, {"phase_age": 540.1}, Act.TIME_OUT),
        (P.STARTING, {"wanted": False}, Act.STOP_NOW),
        (P.STARTING, {"wanted": False, "phase_age": 999.0}, Act.STOP_NOW),
        (P.STARTING, {"alive": False}, Act.CLOSE_FAILED),
        (P.READY, {"alive": False}, Act.CLOSE_FAILED),
        (P.READY, {"alive": False, "survivors": True}, Act.CLEAR_SURVIVORS),
        (P.READY, {}, Act.CHECK),
        (P.NOT_READY, {}, Act.CHECK),
        (P.READY, {"wanted": False}, Act.DRAIN),
        (P.NOT_READY, {"wanted": False}, Act.DRAIN),
        (P.DRAINING, {}, Act.WAIT_DRAIN),
        (P.DRAINING, {"past_deadline": 2.0}, Act.WAIT_DRAIN),
        (P.DRAINING, {"past_deadline": 2.1}, Act.SIGNAL),
        (P.DRAINING, {"drained": True, "past_deadline": -20.0}, Act.SIGNAL),
        (P.DRAINING, {"drained": True, "signalled_age": 15.0}, Act.NOTHING),
        (P.DRAINING, {"drained": True, "signalled_age": 15.1}, Act.KILL),
        (P.DRAINING, {"alive": False}, Act.CLOSE_STOPPED),
        (P.DRAINING, {"alive": False, "survivors": True}, Act.CLEAR_SURVIVORS),
    ],
)
def test_the_step_of_a_replica(phase: P, changes: dict[str, Any], step: Act) -> None:
    assert act(phase, **changes) is step


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0.0), (1, 5.0), (2, 10.0), (3, 20.0), (7, 300.0), (10**9, 300.0)]
)
def test_the_wait_between_starts_doubles_up_to_its_cap(failures: int, seconds: float) -> None:
    assert backoff_seconds(failures, first=5.0, cap=300.0) == seconds


@given(st.integers(0, 10**6))
def test_the_wait_never_falls_and_never_passes_its_cap(failures: int) -> None:
    now, later = (backoff_seconds(n, first=5.0, cap=300.0) for n in (failures, failures + 1))
    assert 0.0 <= now <= later <= 300.0
