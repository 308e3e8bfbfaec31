"""The replica machine, and the status of a deployment that is computed from it."""

from itertools import product

import pytest

from profiles_app.errors import DomainError, ForbiddenError, NotFoundError
from profiles_app.states import (
    LIVE,
    TERMINAL,
    TRANSITIONS,
    DeploymentStatus,
    ReplicaPhase,
    ReplicaView,
    deployment_status,
    may_move,
)

P, S = ReplicaPhase, DeploymentStatus


def test_the_machine_has_these_arrows_and_no_other() -> None:
    arrows = {(old.value, new.value) for old, new in product(P, P) if may_move(old=old, new=new)}
    assert arrows == {
        ("pending", "starting"),
        ("pending", "stopped"),
        ("pending", "failed"),
        ("starting", "ready"),
        ("starting", "draining"),
        ("starting", "stopped"),
        ("starting", "failed"),
        ("ready", "not_ready"),
        ("ready", "draining"),
        ("ready", "failed"),
        ("not_ready", "ready"),
        ("not_ready", "draining"),
        ("not_ready", "failed"),
        ("draining", "stopped"),
        ("draining", "failed"),
    }


def test_every_phase_is_in_the_machine_and_only_terminal_ones_have_no_way_out() -> None:
    assert set(TRANSITIONS) == set(P)
    assert {phase for phase in P if not TRANSITIONS[phase]} == TERMINAL


def test_a_terminal_phase_is_reached_from_every_other_one() -> None:
    for phase in set(P) - TERMINAL:
        assert TRANSITIONS[phase] & TERMINAL


def test_live_phases_are_those_that_may_hold_a_process() -> None:
    assert {P.PENDING} | TERMINAL | LIVE == set(P)
    assert not LIVE & ({P.PENDING} | TERMINAL)


def view(phase: P, *, wanted: bool = True, unreachable: bool = False) -> ReplicaView:
    return ReplicaView(phase=phase, wanted=wanted, unreachable=unreachable)


@pytest.mark.parametrize(
    ("replicas", "wanted", "failed_slots", "status"),
    [
        ([], 0, 0, S.STOPPED),
        ([view(P.READY, wanted=False)], 0, 0, S.DRAINING),
        ([], 1, 0, S.QUEUED),
        ([view(P.PENDING)], 1, 0, S.QUEUED),
        ([view(P.STARTING)], 1, 0, S.STARTING),
        ([view(P.STARTING, wanted=False)], 1, 0, S.QUEUED),
        ([view(P.READY)], 1, 0, S.READY),
        ([view(P.READY), view(P.READY)], 1, 0, S.READY),
        ([view(P.READY, wanted=False)], 1, 0, S.QUEUED),
        ([view(P.READY), view(P.STARTING)], 2, 0, S.DEGRADED),
        ([view(P.NOT_READY)], 1, 0, S.DEGRADED),
        ([view(P.NOT_READY, wanted=False)], 1, 0, S.QUEUED),
        ([view(P.DRAINING, wanted=False)], 1, 0, S.DRAINING),
        ([view(P.DRAINING, wanted=False), view(P.STARTING)], 1, 0, S.STARTING),
        ([view(P.READY)], 2, 1, S.DEGRADED),
        ([view(P.STARTING)], 2, 1, S.FAILED),
        ([], 1, 1, S.FAILED),
        ([view(P.READY)], 1, 1, S.READY),
        ([view(P.READY, unreachable=True)], 1, 0, S.UNKNOWN),
        ([view(P.DRAINING, wanted=False, unreachable=True)], 0, 0, S.UNKNOWN),
        ([view(P.PENDING, unreachable=True)], 1, 0, S.QUEUED),
    ],
)
def test_the_status_of_a_deployment(
    replicas: list[ReplicaView], wanted: int, failed_slots: int, status: DeploymentStatus
) -> None:
    assert deployment_status(replicas=iter(replicas), wanted=wanted, failed_slots=failed_slots) is status


def test_a_deployment_is_ready_only_with_all_its_wanted_replicas_ready_and_reachable() -> None:
    views = [
        view(phase, wanted=w, unreachable=u)
        for phase in set(P) - TERMINAL
        for w in (True, False)
        for u in (True, False)
    ]
    for rows in product(views, repeat=2):
        if deployment_status(replicas=rows, wanted=2, failed_slots=0) is S.READY:
            assert all(row == view(P.READY) for row in rows)


def test_a_refusal_carries_code_sentence_status_and_field() -> None:
    error = DomainError("invalid_name", "Choose another name.", status=422, field="name")
    assert str(error) == error.message == "Choose another name."
    assert (error.code, error.status, error.field) == ("invalid_name", 422, "name")
    assert DomainError("conflict", "No.").status == 409


def test_what_is_hidden_and_what_is_missing_read_the_same() -> None:
    error = NotFoundError("Profile fast")
    assert (error.code, error.status, error.message) == ("not_found", 404, "Profile fast was not found.")


def test_a_refused_role_is_named() -> None:
    error = ForbiddenError("operator")
    assert (error.code, error.status) == ("forbidden", 403)
    assert "operator" in error.message
