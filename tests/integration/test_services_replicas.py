"""Moves of replicas: a compare-and-set each, with exactly one Transition, or none at all."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from profiles_app.models import Replica, Transition
from profiles_app.selectors import transitions_of
from profiles_app.services.replicas import (
    drain_reported,
    replica_create,
    replica_drain,
    replica_move,
    replica_observed,
    replica_place,
    replica_unplaceable,
    replica_unwant,
    stop_signalled,
)
from profiles_app.states import Reason, ReplicaPhase
from profiles_app.wakeups import DEPLOYMENT_PASS, GATEWAY_PUBLISH, NODE_PASS
from tests.factories import NOW, Wakeup, make_deployment, make_engine, make_node, make_placed

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
P = ReplicaPhase
LATER = NOW + timedelta(seconds=9)


def move(row: Replica, old: P, new: P, *, reason: Reason = Reason.PROVEN) -> bool:
    return replica_move(row, old=old, new=new, reason=reason, message=f"{old} to {new}", now=LATER)


def ready_replica() -> Replica:
    row = make_placed(make_deployment(), node=make_node())
    assert move(row, P.PENDING, P.STARTING, reason=Reason.LAUNCHED)
    assert move(row, P.STARTING, P.READY)
    return row


def test_a_new_replica_is_pending_with_secrets_of_its_own_and_one_transition() -> None:
    deployment = make_deployment(replicas=2)
    one, two = (replica_create(deployment, slot=slot, now=NOW) for slot in (0, 1))
    assert one.phase == P.PENDING
    assert one.marker != two.marker
    assert one.api_key != two.api_key
    (first,) = Transition.objects.filter(replica=one)
    assert (first.old, first.new, first.reason) == ("", "pending", "Created")


def test_a_slot_holds_one_wanted_replica() -> None:
    deployment = make_deployment()
    replica_create(deployment, slot=0, now=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        replica_create(deployment, slot=0, now=NOW)
    assert Replica.objects.count() == Transition.objects.count() == 1


def test_a_slot_is_free_again_once_its_replica_is_unwanted_or_over() -> None:
    deployment = make_deployment()
    first = replica_create(deployment, slot=0, now=NOW)
    assert replica_unwant(first, reason=Reason.SPEC_CHANGED)
    second = replica_create(deployment, slot=0, now=NOW)
    assert move(second, P.PENDING, P.FAILED)
    assert replica_create(deployment, slot=0, now=NOW)


def test_two_open_replicas_never_have_the_same_port_of_a_node() -> None:
    node, deployment = make_node(), make_deployment(replicas=2)
    make_placed(deployment, node=node, port=18001)
    row = replica_create(deployment, slot=1, now=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        replica_place(row, node=node, engine=make_engine(node), port=18001, claim={}, now=NOW)


def test_a_move_writes_its_columns_and_one_transition() -> None:
    row = make_placed(make_deployment(), node=make_node())
    assert move(row, P.PENDING, P.STARTING, reason=Reason.LAUNCHED)
    assert (row.phase, row.reason, row.message) == (P.STARTING, "Launched", "pending to starting")
    assert row.phase_since == row.last_seen == LATER
    assert row.ended_at is None
    newest = transitions_of(row.deployment)[0]
    assert (newest.old, newest.new, newest.at) == ("pending", "starting", LATER)


def test_a_stale_move_loses_and_leaves_no_trace() -> None:
    row = make_placed(make_deployment(), node=make_node())
    stale = Replica.objects.get(pk=row.pk)
    assert move(row, P.PENDING, P.STARTING)
    before = Transition.objects.count()
    assert not move(stale, P.PENDING, P.FAILED)
    assert Transition.objects.count() == before
    row.refresh_from_db()
    assert row.phase == P.STARTING
    assert row.ended_at is None


def test_a_move_that_the_machine_does_not_have_is_an_accident() -> None:
    row = make_placed(make_deployment(), node=make_node())
    with pytest.raises(ValueError, match="no transition from pending to ready"):
        move(row, P.PENDING, P.READY)


@pytest.mark.parametrize("end", [P.STOPPED, P.FAILED])
def test_a_terminal_move_notes_the_end(end: P) -> None:
    row = make_placed(make_deployment(), node=make_node())
    assert move(row, P.PENDING, end)
    assert row.ended_at == LATER


def test_only_a_pending_wanted_replica_without_a_place_is_placed() -> None:
    node = make_node()
    row = make_placed(make_deployment(), node=node)
    assert (row.node, row.port, row.claim, row.reason) == (node, 18001, {"cores": 1.0}, "Placed")
    assert not replica_place(row, node=node, engine=make_engine(node), port=18002, claim={}, now=NOW)
    row.refresh_from_db()
    assert row.port == 18001


def test_an_unwanted_replica_is_not_placed() -> None:
    node, row = make_node(), replica_create(make_deployment(), slot=0, now=NOW)
    assert replica_unwant(row, reason=Reason.SCALED_DOWN)
    assert not replica_place(row, node=node, engine=make_engine(node), port=18001, claim={}, now=NOW)


def test_why_there_is_no_place_is_written_on_a_pending_replica_only() -> None:
    row = replica_create(make_deployment(), slot=0, now=NOW)
    replica_unplaceable(row, message="node-a: full.")
    row.refresh_from_db()
    assert (row.reason, row.message) == ("Unplaceable", "node-a: full.")
    assert move(row, P.PENDING, P.STOPPED)
    replica_unplaceable(row, message="node-a: still full.")
    row.refresh_from_db()
    assert row.message == "pending to stopped"


def test_a_replica_is_wished_away_once() -> None:
    row = ready_replica()
    assert replica_unwant(row, reason=Reason.SCALED_DOWN)
    assert not replica_unwant(row, reason=Reason.SPEC_CHANGED)
    row.refresh_from_db()
    assert (row.wanted, row.unwanted_reason, row.phase) == (False, "ScaledDown", P.READY)


def test_a_drain_sets_the_deadline_and_ends_the_wish() -> None:
    row = ready_replica()
    assert replica_drain(row, reason=Reason.SCALED_DOWN, message="Draining.", now=LATER)
    assert row.phase == P.DRAINING
    assert row.drain_deadline == LATER + timedelta(seconds=30)
    assert not row.wanted


def test_a_drain_report_is_written_on_a_draining_replica_only() -> None:
    row = ready_replica()
    drain_reported(row, report={"in_flight": 2})
    row.refresh_from_db()
    assert row.drain_report == {}
    assert replica_drain(row, reason=Reason.SCALED_DOWN, message="", now=LATER)
    drain_reported(row, report={"in_flight": 2})
    row.refresh_from_db()
    assert row.drain_report == {"in_flight": 2}


def test_sigterm_is_noted_once_and_only_while_draining() -> None:
    row = ready_replica()
    assert not stop_signalled(row, now=LATER)
    assert replica_drain(row, reason=Reason.SCALED_DOWN, message="", now=LATER)
    assert stop_signalled(row, now=LATER)
    assert not stop_signalled(row, now=LATER + timedelta(seconds=1))
    row.refresh_from_db()
    assert row.stop_signalled_at == LATER


def test_what_was_observed_is_no_longer_written_once_a_replica_is_over() -> None:
    row = ready_replica()
    replica_observed(row, now=LATER, progress={"phase": "warm-up"})
    row.refresh_from_db()
    assert row.progress == {"phase": "warm-up"}
    assert move(row, P.READY, P.FAILED)
    replica_observed(row, now=LATER, progress={"phase": "late"})
    row.refresh_from_db()
    assert row.progress == {"phase": "warm-up"}


@pytest.mark.django_db(databases=["default", "telemetry"], transaction=True)
def test_moves_wake_those_whom_they_concern(sent: list[Wakeup]) -> None:
    row = make_placed(make_deployment(), node=make_node())
    assert sent[-1] == Wakeup(NODE_PASS, ("node-a",), "node.node-a")
    sent.clear()
    assert move(row, P.PENDING, P.STARTING)
    assert sent == []
    assert move(row, P.STARTING, P.READY)
    assert [hint.task for hint in sent] == [GATEWAY_PUBLISH]
    sent.clear()
    assert replica_unwant(row, reason=Reason.SCALED_DOWN)
    assert sent == [Wakeup(NODE_PASS, ("node-a",), "node.node-a")]
    sent.clear()
    assert move(row, P.READY, P.FAILED)
    assert [hint.task for hint in sent] == [GATEWAY_PUBLISH, DEPLOYMENT_PASS]


@pytest.mark.django_db(databases=["default", "telemetry"], transaction=True)
def test_a_finished_drain_wakes_the_node(sent: list[Wakeup]) -> None:
    row = ready_replica()
    assert replica_drain(row, reason=Reason.SCALED_DOWN, message="", now=LATER)
    sent.clear()
    drain_reported(row, report={"drained": False})
    assert sent == []
    drain_reported(row, report={"drained": True})
    assert sent == [Wakeup(NODE_PASS, ("node-a",), "node.node-a")]
