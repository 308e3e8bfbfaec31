"""Nodes and devices as their agents report them; leases with tokens that only rise."""

from datetime import timedelta

import pytest

from profiles_app.errors import ForbiddenError
from profiles_app.hardware.base import HostReading
from profiles_app.models import EngineInstall, Gpu, Lease, Node
from profiles_app.selectors import known_flags, nodes, nodes_for_planning
from profiles_app.selectors.fleet import present_gpus
from profiles_app.services.leases import lease_release, lease_take
from profiles_app.services.nodes import engine_register, node_cordon, node_join, node_reported, node_stopping
from tests.factories import GIB, NOW, make_device, make_engine, make_node, make_viewer

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])


def reading(*uuids: str) -> HostReading:
    return HostReading(
        kind="gpu",
        cores=None,
        memory_total_bytes=None,
        memory_available_bytes=None,
        boot_id=None,
        devices=tuple(make_device(uuid, index, name=None, compute_capability=None) for index, uuid in enumerate(uuids)),
        problems=("The driver does not answer.",),
    )


def test_a_node_joins_once_and_its_start_ends_the_mark_that_it_stops() -> None:
    node_join("node-a", now=NOW)
    node_stopping("node-a")
    assert Node.objects.get().stopping
    node_join("node-a", now=NOW)
    assert not Node.objects.get().stopping


def test_what_a_reading_does_not_know_is_stored_as_unknown() -> None:
    node = make_node()
    node_reported("node-a", reading=reading("u1"), now=NOW)
    node.refresh_from_db()
    assert (node.cores, node.memory_total_bytes, node.boot_id) == (None, None, "")
    assert node.problems == ["The driver does not answer."]
    assert Gpu.objects.get().name == ""


def test_a_device_that_a_reading_lacks_is_missing_since_then_and_comes_back() -> None:
    node = make_node()
    node_reported("node-a", reading=reading("u1", "u2"), now=NOW)
    for minutes in (1, 2):
        node_reported("node-a", reading=reading("u1"), now=NOW + timedelta(minutes=minutes))
    assert Gpu.objects.get(uuid="u2").missing_since == NOW + timedelta(minutes=1)
    assert [gpu.uuid for gpu in present_gpus(node)] == ["u1"]
    node_reported("node-a", reading=reading("u1", "u2"), now=NOW + timedelta(minutes=3))
    assert len(present_gpus(node)) == 2


def test_planning_sees_nodes_that_are_reachable_and_open_only() -> None:
    make_node("a")
    make_node("lapsed", lease=60)
    cordoned = make_node("cordoned")
    node_cordon(make_viewer(), node=cordoned, cordoned=True)
    make_node("stopping")
    node_stopping("stopping")
    assert [node.name for node in nodes_for_planning(now=NOW + timedelta(seconds=61))] == ["a"]
    node_cordon(make_viewer("otto"), node=cordoned, cordoned=False)
    assert [node.name for node in nodes_for_planning(now=NOW)] == ["a", "cordoned", "lapsed"]


def test_a_viewer_cordons_nothing_and_a_person_without_a_team_sees_no_node() -> None:
    node = make_node()
    with pytest.raises(ForbiddenError):
        node_cordon(make_viewer("vera", default="viewer"), node=node, cordoned=True)
    nobody = make_viewer("sam", default="viewer")
    assert nodes(nobody).count() == 1
    assert nodes(type(nobody)(user_id=1)).count() == 0


def test_an_engine_is_registered_once_and_refreshed() -> None:
    node = make_node()
    first = make_engine(node)
    assert known_flags() == []
    flag = {"flags": ["--seed"], "choices": None}
    again = engine_register(
        node=node, name="fake", version="1", kind="cpu", interpreter="python", argv_prefix=["x"], env={}, flags=[flag]
    )
    assert again.pk == first.pk
    assert (EngineInstall.objects.get().version, known_flags()) == ("1", [flag])


def test_a_node_reports_its_memory_in_bytes() -> None:
    assert make_node().memory_total_bytes == 32 * GIB


def test_a_lease_is_had_by_one_holder_until_it_runs_out() -> None:
    assert lease_take("loop", holder="a", seconds=10, now=NOW) == 1
    assert lease_take("loop", holder="b", seconds=10, now=NOW + timedelta(seconds=9)) is None
    assert lease_take("loop", holder="b", seconds=10, now=NOW + timedelta(seconds=10)) == 2
    assert lease_take("loop", holder="a", seconds=10, now=NOW + timedelta(seconds=11)) is None


def test_a_renewal_keeps_the_token_and_a_new_holder_raises_it() -> None:
    tokens = [
        lease_take("loop", holder=holder, seconds=1, now=NOW + timedelta(seconds=at))
        for at, holder in enumerate(["a", "a", "b", "a", "a"])
    ]
    assert tokens == [1, 1, 2, 3, 3]


def test_a_released_lease_is_free_at_once_and_only_its_holder_can_release_it() -> None:
    lease_take("loop", holder="a", seconds=10, now=NOW)
    assert not lease_release("loop", holder="b", now=NOW)
    assert lease_take("loop", holder="b", seconds=10, now=NOW) is None
    assert lease_release("loop", holder="a", now=NOW)
    assert lease_take("loop", holder="b", seconds=10, now=NOW) == 2


def test_leases_of_different_names_are_apart() -> None:
    for name in ("one", "two"):
        assert lease_take(name, holder=name, seconds=10, now=NOW) == 1
    assert Lease.objects.count() == 2
