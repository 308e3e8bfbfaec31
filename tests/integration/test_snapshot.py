"""The routing table as it is published, and what the gateways report of a drain, with and without Valkey."""

import json
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway import snapshot
from gateway.models import RoutingTable
from gateway.proxy.table import Table, decode_table
from gateway.services import drain_reports_write, hash_key, key_create, key_revoke, table_publish
from profiles_app.models import Profile, Replica, Team
from profiles_app.selectors import system_viewer
from profiles_app.services.profiles import revision_create
from profiles_app.services.replicas import replica_drain, replica_move, stop_signalled
from profiles_app.states import Reason, ReplicaPhase
from tests.factories import NOW, cpu_spec, make_deployment, make_node, make_placed, make_profile, make_team
from tests.unit.gateway_feed.valkey import ValkeyServer

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
P = ReplicaPhase


@pytest.fixture(autouse=True)
def table_file(data_dir: Path) -> Path:
    """Where this test's table is written."""
    return data_dir / "run" / "table.json"


@pytest.fixture
def valkey(settings: Any) -> Iterator[ValkeyServer]:
    """A Valkey that the control plane writes to, in a short folder: a Unix socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="fb-") as folder:
        server = ValkeyServer(Path(folder))
        server.start()
        settings.FOREBAY_DATA_URL = f"{server.url}?db=3"
        yield server
        server.kill()


def published() -> Table:
    return decode_table(snapshot.table_path().read_bytes())


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def ready(profile: Profile | None = None, *, port: int = 18001) -> Replica:
    row = make_placed(make_deployment(profile or make_profile()), node=make_node(), port=port)
    for old, new in ((P.PENDING, P.STARTING), (P.STARTING, P.READY)):
        assert replica_move(row, old=old, new=new, reason=Reason.PROVEN, message="", now=NOW)
    return row


def draining() -> Replica:
    row = ready()
    assert replica_drain(row, reason=Reason.SCALED_DOWN, message="", now=NOW)
    return row


def team_key(team: Team, **columns: Any) -> tuple[Any, str]:
    values = {"name": "ci", "profiles": (), "all_profiles": True, **columns}
    return key_create(system_viewer(), team=team, now=NOW, **values)


def test_the_file_is_readable_by_its_owner_only_and_leaves_nothing_beside_it(table_file: Path) -> None:
    table_publish(now=NOW)
    assert table_file.stat().st_mode & 0o777 == 0o600
    assert table_file.parent.stat().st_mode & 0o777 == 0o700
    assert list(table_file.parent.iterdir()) == [table_file]


def test_unchanged_content_keeps_its_version_and_a_change_raises_it_by_one() -> None:
    assert table_publish(now=NOW) == 1
    assert table_publish(now=after(60)) == 1
    assert published().published_at == NOW.timestamp()
    make_profile()
    assert table_publish(now=after(61)) == 2
    assert published().version == 2


def test_the_version_never_falls_whatever_happens_to_file_and_valkey(table_file: Path, valkey: ValkeyServer) -> None:
    versions = [table_publish(now=NOW)]
    for number in range(3):
        make_profile(f"p{number}")
        versions.append(table_publish(now=NOW))
    table_file.unlink()
    versions.append(table_publish(now=NOW))
    valkey.client.flushall()
    versions.append(table_publish(now=NOW))
    assert versions == sorted(versions)
    assert int(valkey.client.get("forebay:table:version")) == versions[-1] == published().version
    assert valkey.client.get("forebay:table") == table_file.read_bytes()


def test_a_lost_file_is_written_again(table_file: Path) -> None:
    table_publish(now=NOW)
    table_file.unlink()
    version = table_publish(now=NOW)
    assert published().version == version


def test_there_is_one_row_that_counts() -> None:
    for number in range(3):
        make_profile(f"p{number}")
        table_publish(now=NOW)
    assert [(row.pk, row.version) for row in RoutingTable.objects.all()] == [(1, 3)]


def test_each_version_is_announced_once(valkey: ValkeyServer) -> None:
    channel = valkey.client.pubsub(ignore_subscribe_messages=True)
    channel.subscribe("forebay:table")
    assert channel.get_message(timeout=5) is None
    for _ in range(2):
        table_publish(now=NOW)
    heard = channel.get_message(timeout=5)
    assert heard is not None
    assert heard["data"] == b"1"
    assert channel.get_message(timeout=0.1) is None


def test_a_ready_replica_is_listed_with_all_that_routing_needs() -> None:
    row = ready(make_profile(spec=cpu_spec(quality={"output_cap": 64})))
    table_publish(now=NOW)
    table = published()
    profile = table.profiles["fast"]
    assert profile.replicas == (str(row.pk),)
    assert (profile.team, profile.revision, profile.revision_hash) == ("default", 1, row.revision.spec_hash)
    assert (profile.model, profile.precision) == ("tiny@1", "bf16")
    assert (profile.max_model_len, profile.max_concurrency, profile.output_cap) == (2048, 4, 64)
    entry = table.replicas[str(row.pk)]
    assert (entry.profile, entry.state, entry.drain_deadline) == ("fast", "ready", None)
    assert (entry.url, entry.api_key) == ("http://127.0.0.1:18001", row.api_key)


def test_a_draining_replica_stays_listed_with_its_deadline_but_takes_nothing_new() -> None:
    row = draining()
    table_publish(now=NOW)
    table = published()
    assert table.profiles["fast"].replicas == ()
    entry = table.replicas[str(row.pk)]
    assert (entry.state, entry.drain_deadline) == ("draining", after(30).timestamp())


def test_a_replica_that_was_told_to_stop_is_routed_to_by_nobody() -> None:
    row = draining()
    assert stop_signalled(row, now=NOW)
    table_publish(now=NOW)
    assert published().replicas == {}


@pytest.mark.parametrize("phase", [P.PENDING, P.STARTING, P.NOT_READY, P.FAILED])
def test_only_a_proven_replica_is_listed(phase: P) -> None:
    row = ready()
    Replica.objects.filter(pk=row.pk).update(phase=phase)
    table_publish(now=NOW)
    assert published().replicas == {}
    assert published().profiles["fast"].replicas == ()


def test_a_profile_that_was_never_deployed_is_listed_with_its_newest_revision() -> None:
    profile = make_profile()
    revision_create(system_viewer(), profile=profile, spec=cpu_spec(batching={"max_model_len": 1024}))
    table_publish(now=NOW)
    entry = published().profiles["fast"]
    assert (entry.revision, entry.max_model_len, entry.replicas) == (2, 1024, ())


def test_a_deployed_profile_is_listed_with_the_deployed_revision() -> None:
    profile = make_profile()
    make_deployment(profile)
    revision_create(system_viewer(), profile=profile, spec=cpu_spec(batching={"max_model_len": 1024}))
    table_publish(now=NOW)
    assert published().profiles["fast"].revision == 1


def test_a_key_is_listed_by_its_hash_and_a_revoked_one_is_gone() -> None:
    team = make_team()
    profile = make_profile()
    row, key = team_key(team, max_concurrency=2, expires_at=after(60))
    some, _ = team_key(team, name="some", all_profiles=False, profiles=[profile])
    table_publish(now=NOW)
    entry = published().keys[hash_key(key)]
    assert (entry.id, entry.team, entry.profiles) == (str(row.pk), "default", ("*",))
    assert (entry.max_concurrency, entry.expires_at) == (2, after(60).timestamp())
    assert published().keys[some.key_hash].profiles == ("fast",)
    assert key.encode() not in snapshot.table_path().read_bytes()
    key_revoke(system_viewer(), key=row, now=NOW)
    assert table_publish(now=NOW) == 2
    assert set(published().keys) == {some.key_hash}


def report(server: ValkeyServer, name: str, *, version: int, **mine: Any) -> None:
    """What one gateway process says, as it says it."""
    row = Replica.objects.get()
    text = json.dumps({"process_id": name, "table_version": version, "replicas": {str(row.pk): mine} if mine else {}})
    server.client.set(f"forebay:gateway:{name}", text)


def written() -> dict[str, Any]:
    found: dict[str, Any] = Replica.objects.get().drain_report
    return found


def test_a_drain_is_over_when_every_gateway_says_so(valkey: ValkeyServer) -> None:
    draining()
    version = table_publish(now=NOW)
    report(valkey, "g1", version=version, in_flight=1, oldest_age=2.0, completed=10, cut=0)
    report(valkey, "g2", version=version - 1)
    assert drain_reports_write(now=NOW) == 1
    assert (written()["drained"], written()["in_flight"], written()["waiting_for"]) == (False, 1, ["g2"])
    report(valkey, "g1", version=version, in_flight=0, completed=12, cut=0)
    report(valkey, "g2", version=version)
    drain_reports_write(now=NOW)
    assert written()["drained"]
    assert written()["completed"] == 2


def test_a_gateway_that_fell_silent_is_waited_for_as_long_as_its_table_may_live(valkey: ValkeyServer) -> None:
    draining()
    version = table_publish(now=NOW)
    report(valkey, "g1", version=version)
    drain_reports_write(now=NOW)
    assert written()["drained"]
    valkey.client.delete("forebay:gateway:g1")
    drain_reports_write(now=after(30))
    assert (written()["drained"], written()["waiting_for"]) == (False, ["g1"])
    drain_reports_write(now=after(31))
    assert (written()["drained"], written()["waiting_for"]) == (True, [])


def test_while_valkey_is_down_a_drain_waits_and_says_why() -> None:
    draining()
    assert drain_reports_write(now=NOW) == 1
    assert not written()["drained"]
    assert "Valkey is down" in written()["unknown"]


def test_a_drain_that_was_over_is_not_over_once_nothing_is_known(valkey: ValkeyServer) -> None:
    draining()
    drain_reports_write(now=NOW)
    assert written()["drained"]
    valkey.kill()
    drain_reports_write(now=NOW)
    assert not written()["drained"]


def test_without_a_draining_replica_nobody_is_asked() -> None:
    ready()
    assert drain_reports_write(now=NOW) == 0
    assert written() == {}
