"""The deployment pass: replicas for wishes, a place or a reason, back-off, and the end of what nobody wants."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from profiles_app.models import Deployment, Replica, Transition
from profiles_app.reconciler.deployment import run_pass
from profiles_app.selectors import deployments, system_viewer
from profiles_app.selectors.lists import deployment_states
from profiles_app.selectors.replicas import DeploymentState
from profiles_app.services.deployments import deployment_deploy, deployment_retry, deployment_scale
from profiles_app.services.leases import lease_take
from profiles_app.services.profiles import revision_create
from profiles_app.services.replicas import replica_move
from profiles_app.states import DeploymentStatus, Reason, ReplicaPhase
from profiles_app.wakeups import NODE_PASS
from tests.factories import (
    NOW,
    Wakeup,
    cpu_spec,
    gpu_spec,
    make_deployment,
    make_engine,
    make_node,
    make_profile,
)

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
P = ReplicaPhase


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def rows(**columns: Any) -> list[Replica]:
    return list(Replica.objects.filter(**columns).order_by("slot", "created_at"))


def picture() -> list[Any]:
    """All that a pass could change, except when it last looked."""
    return [
        list(Replica.objects.order_by("pk").values()),
        list(Transition.objects.order_by("pk").values()),
        list(Deployment.objects.order_by("pk").values()),
    ]


def assert_next_pass_does_nothing(now: datetime = NOW) -> None:
    before = picture()
    assert run_pass(now=now)
    assert picture() == before


def end(row: Replica, *, now: datetime, phase: P = P.FAILED) -> None:
    assert replica_move(row, old=P(row.phase), new=phase, reason=Reason.STARTUP_FAILED, message="It ended.", now=now)


def state_of(deployment: Deployment, *, now: datetime) -> DeploymentState:
    return deployment_states(deployments(system_viewer()), now=now)[deployment.pk]


def test_a_wish_becomes_placed_replicas_and_the_next_pass_does_nothing() -> None:
    make_engine(make_node())
    deployment = make_deployment(replicas=2)
    assert run_pass(now=NOW)
    found = rows()
    assert [(row.slot, row.phase, row.node and row.node.name) for row in found] == [
        (0, "pending", "node-a"),
        (1, "pending", "node-a"),
    ]
    assert len({row.port for row in found}) == 2
    assert [row.claim["cores"] for row in found] == [1.0, 1.0]
    deployment.refresh_from_db()
    assert deployment.observed_generation == deployment.generation
    assert_next_pass_does_nothing()


@pytest.mark.django_db(databases=["default", "telemetry"], transaction=True)
def test_a_placed_replica_wakes_its_node(sent: list[Wakeup]) -> None:
    make_engine(make_node())
    make_deployment()
    sent.clear()
    run_pass(now=NOW)
    assert sent == [Wakeup(NODE_PASS, ("node-a",), "node.node-a")]


def test_without_a_node_a_replica_stays_pending_and_says_what_to_do() -> None:
    make_deployment()
    run_pass(now=NOW)
    (row,) = rows()
    assert (row.phase, row.reason, row.node) == (P.PENDING, Reason.UNPLACEABLE, None)
    assert "start its agent or uncordon it" in row.message
    assert_next_pass_does_nothing()


def test_a_replica_that_fits_nowhere_has_one_reason_a_node() -> None:
    make_engine(make_node("big", cores=16), kind="cuda")
    make_engine(make_node("small", cores=1))
    make_deployment(make_profile(spec=cpu_spec(compute={"cores": 4})))
    run_pass(now=NOW)
    (row,) = rows()
    assert row.message == ("big: no cpu engine is installed; small: 1 of 1 cores are unclaimed, 4 are needed.")


def test_a_replica_is_placed_as_soon_as_there_is_room() -> None:
    make_deployment()
    run_pass(now=NOW)
    make_engine(make_node())
    run_pass(now=NOW)
    (row,) = rows()
    assert (row.node and row.node.name, row.reason) == ("node-a", Reason.PLACED)


def test_claims_shrink_what_is_left_within_one_pass() -> None:
    make_engine(make_node(cores=2))
    make_deployment(replicas=3)
    run_pass(now=NOW)
    assert [row.node is not None for row in rows()] == [True, True, False]
    assert "0 of 2 cores are unclaimed" in rows()[2].message


def test_three_replicas_of_two_gpus_share_out_six_and_a_fourth_waits() -> None:
    make_engine(make_node(gpus=6), kind="cuda")
    make_deployment(make_profile(spec=gpu_spec(2)), replicas=4)
    run_pass(now=NOW)
    sets = [set(row.claim.get("gpu_uuids", ())) for row in rows()]
    assert [len(uuids) for uuids in sets] == [2, 2, 2, 0]
    assert len(set().union(*sets)) == 6
    assert rows()[0].claim["device_name"] == "Test GPU"
    assert "0 of 6 GPUs are unclaimed" in rows()[3].message


def test_a_gpu_that_somebody_else_fills_or_that_is_missing_is_not_given_out() -> None:
    node = make_node(gpus=3)
    make_engine(node, kind="cuda")
    node.gpus.filter(index=0).update(memory_used_bytes=60 * 2**30)
    node.gpus.filter(index=1).update(missing_since=NOW)
    make_deployment(make_profile(spec=gpu_spec(1)), replicas=2)
    run_pass(now=NOW)
    assert [row.claim.get("gpu_uuids", []) for row in rows()] == [["node-a-gpu-2"], []]


def test_no_port_is_given_out_twice_nor_soon_after_its_replica_ended(settings: Any) -> None:
    settings.FOREBAY = replace(settings.FOREBAY, engine_ports=(18001, 18002))
    make_engine(make_node())
    deployment = make_deployment(replicas=3)
    run_pass(now=NOW)
    assert [row.port for row in rows()] == [18001, 18002, None]
    assert rows()[2].message == "node-a: every port from 18001 to 18002 is taken."
    end(rows()[0], now=after(1), phase=P.STOPPED)
    deployment_scale(system_viewer(), deployment=deployment, replicas=1, now=NOW)
    run_pass(now=after(75))
    assert rows(slot=0, phase=P.PENDING)[0].port is None
    run_pass(now=after(77))
    assert rows(slot=0, phase=P.PENDING)[0].port == 18001


def test_scaling_down_ends_the_highest_slots_and_what_has_no_place_at_once() -> None:
    make_engine(make_node(cores=2))
    deployment = make_deployment(replicas=3)
    run_pass(now=NOW)
    deployment_scale(system_viewer(), deployment=deployment, replicas=1, now=NOW)
    run_pass(now=NOW)
    found = rows()
    assert [(row.wanted, row.phase) for row in found] == [(True, P.PENDING), (False, P.PENDING), (False, P.STOPPED)]
    assert [row.unwanted_reason for row in found] == ["", Reason.SCALED_DOWN, Reason.SCALED_DOWN]
    assert found[2].reason == Reason.SCALED_DOWN
    assert_next_pass_does_nothing()


def test_a_stopped_deployment_wants_nothing() -> None:
    make_engine(make_node())
    deployment = make_deployment()
    run_pass(now=NOW)
    deployment_scale(system_viewer(), deployment=deployment, replicas=0, now=NOW)
    run_pass(now=NOW)
    (row,) = rows()
    assert (row.wanted, row.unwanted_reason) == (False, Reason.DEPLOYMENT_STOPPED)


def test_a_new_revision_replaces_each_slot_only_after_the_old_process_is_over() -> None:
    make_engine(make_node())
    profile = make_profile()
    make_deployment(profile)
    run_pass(now=NOW)
    (old,) = rows()
    second = revision_create(system_viewer(), profile=profile, spec=cpu_spec(batching={"max_num_seqs": 2}))
    deployment_deploy(system_viewer(), profile=profile, revision=second, replicas=1, now=NOW)
    for _ in range(2):
        run_pass(now=NOW)
        (old,) = rows()
        assert (old.wanted, old.unwanted_reason) == (False, Reason.SPEC_CHANGED)
    end(old, now=NOW, phase=P.STOPPED)
    run_pass(now=NOW)
    (new,) = rows(phase=P.PENDING)
    assert (new.slot, new.revision) == (0, second)
    assert_next_pass_does_nothing()


def test_a_failed_replica_is_followed_by_another_after_a_wait_that_doubles() -> None:
    make_engine(make_node())
    make_deployment()
    moment = 0.0
    for wait in (5, 10, 20):
        run_pass(now=after(moment))
        (row,) = rows(phase=P.PENDING)
        end(row, now=after(moment))
        run_pass(now=after(moment + wait - 0.1))
        assert rows(phase=P.PENDING) == []
        moment += wait
    run_pass(now=after(moment))
    assert len(rows(phase=P.PENDING)) == 1


def fail_until_given_up(deployment: Deployment) -> datetime:
    """Let the slot fail once more than it may be started again; returns the moment of the last failure."""
    moment = NOW
    for _ in range(deployment.max_restarts + 1):
        run_pass(now=moment)
        (row,) = rows(phase=P.PENDING)
        end(row, now=moment)
        moment += timedelta(seconds=300)
    return moment


def test_after_too_many_failures_the_slot_is_given_up_until_someone_acts() -> None:
    make_engine(make_node())
    deployment = make_deployment()
    moment = fail_until_given_up(deployment)
    deployment.refresh_from_db()
    assert_next_pass_does_nothing(moment)
    state = state_of(deployment, now=moment)
    assert (state.status, state.failed_slots) == (DeploymentStatus.FAILED, 1)
    assert state.last_failure is not None
    deployment_retry(system_viewer(), deployment=deployment, now=moment)
    run_pass(now=moment)
    assert len(rows(phase=P.PENDING)) == 1
    assert state_of(deployment, now=moment).status is DeploymentStatus.QUEUED


def test_a_taken_port_is_no_failed_start_and_another_one_is_tried_at_once() -> None:
    make_engine(make_node())
    make_deployment()
    run_pass(now=NOW)
    (row,) = rows()
    assert replica_move(row, old=P.PENDING, new=P.FAILED, reason=Reason.PORT_TAKEN, message="In use.", now=NOW)
    run_pass(now=NOW)
    (another,) = rows(phase=P.PENDING)
    assert another.port != row.port


def test_a_new_revision_starts_with_a_clean_count() -> None:
    make_engine(make_node())
    profile = make_profile()
    moment = fail_until_given_up(make_deployment(profile))
    second = revision_create(system_viewer(), profile=profile, spec=cpu_spec(batching={"max_num_seqs": 2}))
    deployment_deploy(system_viewer(), profile=profile, revision=second, replicas=1, now=NOW)
    run_pass(now=moment)
    assert [row.revision for row in rows(phase=P.PENDING)] == [second]


def test_while_another_pass_runs_this_one_does_nothing() -> None:
    make_deployment()
    assert lease_take("deployment-pass", holder="another", seconds=20, now=timezone.now())
    assert not run_pass(now=NOW)
    assert rows() == []


def test_what_is_wrong_with_one_replica_does_not_keep_others_from_their_place() -> None:
    make_engine(make_node())
    broken = make_profile("broken")
    make_deployment(broken)
    make_deployment(make_profile("sound"))
    broken.revisions.update(spec={"model": "of an older version"})
    assert run_pass(now=NOW)
    places = {row.deployment.profile.name: row.node is not None for row in rows()}
    assert places == {"broken": False, "sound": True}


def test_a_node_that_vanished_keeps_its_replicas_and_gets_no_new_ones() -> None:
    node = make_node(lease=60)
    make_engine(node)
    deployment = make_deployment()
    run_pass(now=NOW)
    deployment_scale(system_viewer(), deployment=deployment, replicas=2, now=NOW)
    run_pass(now=after(61))
    assert [row.node is not None for row in rows()] == [True, False]
    assert {row.phase for row in rows()} == {P.PENDING}
